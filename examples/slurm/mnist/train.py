"""Trains a small network on MNIST on all GPUs of all workers that TF_CONFIG names, and prints loss and accuracy."""

import json
import os

import tensorflow as tf

_BATCH_OF_WORKER = 64
_EPOCHS = 3
_STEPS_OF_EPOCH = 70
_LEARNING_RATE = 0.001


def images(batch: int) -> tf.data.Dataset:
    """Return endless batches of images and labels; every worker reads a different share of each batch."""
    (pixels, labels), _ = tf.keras.datasets.mnist.load_data()
    rows = tf.data.Dataset.from_tensor_slices(((pixels / 255.0).astype("float32"), labels.astype("int64")))
    return rows.shuffle(len(labels)).repeat().batch(batch)


def network() -> tf.keras.Model:
    """Return the neural network, which takes images of 28 x 28 pixels and returns 10 logits."""
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            tf.keras.Input(shape=(28, 28)),
            layers.Reshape((28, 28, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(10),
        ]
    )
    model.compile(
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=tf.keras.optimizers.SGD(learning_rate=_LEARNING_RATE),
        metrics=["accuracy"],
    )
    return model


def main() -> None:
    """Train. The strategy must be created before anything else in TensorFlow is used."""
    nccl = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.NCCL
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=nccl)
    config = json.loads(os.environ["TF_CONFIG"])
    batch = _BATCH_OF_WORKER * len(config["cluster"]["worker"])
    with strategy.scope():
        model = network()
    one = config["task"]["index"] == 0
    model.fit(images(batch), epochs=_EPOCHS, steps_per_epoch=_STEPS_OF_EPOCH, verbose=2 if one else 0)


if __name__ == "__main__":
    main()
