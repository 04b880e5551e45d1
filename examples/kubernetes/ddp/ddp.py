"""Trains ResNet-18 on CIFAR-10 over several pods, as in IIJ's article of 2024-06-04, and proves that gradients are averaged.

torchrun --nproc_per_node=1 --nnodes=2 --node_rank=0 --master_addr=ADDRESS --master_port=29500 ddp.py --epochs 200

Without the data set in --data, the script trains on generated images and says so. Such a run shows that the ranks work
together, but its accuracy cannot be compared with the article's. The article's accuracies are 0.8046 after 10 epochs and
0.856 after 200 epochs, from pre-trained weights on two A100.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from torchvision import transforms
from torchvision.datasets import CIFAR10
from torchvision.models import ResNet18_Weights, resnet18

logger = logging.getLogger(__name__)
#: Facts about CIFAR-10: classes, edge of an image in pixels, and the mean and deviation of the channels as in the article.
CLASSES, EDGE = 10, 32
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
#: A generated image is noise plus this much of its class's pattern, so that the loss falls for some epochs before it is 0.
PATTERN = 0.2
#: The model is tested after every tenth epoch, as in the article, and after the last epoch.
TESTED = 10


def parsed(words: list[str]) -> argparse.Namespace:
    """Return the command line's values."""
    parser = argparse.ArgumentParser(description="ResNet-18 on CIFAR-10, over all ranks of torchrun.")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch_size", type=int, default=128)
    parser.add_argument("--learning_rate", type=float, default=0.1)
    parser.add_argument("--random_seed", type=int, default=0)
    parser.add_argument("--data", default="./data", help="folder with cifar-10-batches-py")
    parser.add_argument("--generated", type=int, default=2048, help="how many images to generate if there is no data set")
    parser.add_argument("--pre-trained", action="store_true", help="begin with the weights that torchvision downloads")
    return parser.parse_args(words)


def seeded(seed: int) -> None:
    """Make a run repeatable."""
    torch.manual_seed(seed)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    np.random.seed(seed)  # noqa: NPY002 - what torchvision's transforms may use
    random.seed(seed)


def generated(count: int, seed: int) -> TensorDataset:
    """Return generated images: each is noise over a faint pattern of its class. All ranks generate the same images."""
    source = torch.Generator().manual_seed(seed)
    patterns = torch.randn(CLASSES, 3, EDGE, EDGE, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(CLASSES, (count,), generator=source)
    return TensorDataset(PATTERN * patterns[labels] + torch.randn(count, 3, EDGE, EDGE, generator=source), labels)


def data_sets(folder: str, count: int) -> tuple[Dataset[Any], Dataset[Any]]:
    """Return the images to train with, and the images to test with."""
    if not Path(folder, "cifar-10-batches-py").is_dir():
        logger.warning(
            "No CIFAR-10 in %s: training on %d generated images; do not compare their accuracy with CIFAR-10's", folder, count
        )
        return generated(count, seed=1), generated(max(count // 4, 1), seed=2)
    both = [transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION)]
    varied = transforms.Compose([transforms.RandomCrop(EDGE, padding=4), transforms.RandomHorizontalFlip(), *both])
    # The test images are varied, too, as in the article; otherwise the accuracies could not be compared with the article's.
    return CIFAR10(folder, train=True, transform=varied), CIFAR10(folder, train=False, transform=varied)


def gradients(model: nn.Module) -> torch.Tensor:
    """Return all gradients as one vector."""
    return torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])


def apart(own: torch.Tensor) -> float:
    """Return the largest difference between rank 0's vector and another rank's vector; 0 if all vectors are identical.

    `own` is this rank's vector.
    """
    every = [torch.empty_like(own) for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather(every, own)
    return max(float((one - every[0]).abs().max()) for one in every)


def prove(model: DistributedDataParallel, images: torch.Tensor, labels: torch.Tensor, criterion: nn.Module) -> None:
    """Exit unless the ranks' gradients differ before they are averaged and are equal afterwards."""
    with model.no_sync():
        criterion(model(images), labels).backward()
    alone = apart(gradients(model))
    model.zero_grad()
    criterion(model(images), labels).backward()
    together = apart(gradients(model))
    model.zero_grad()
    ranks = torch.distributed.get_world_size()
    logger.info("Gradients of %d ranks: apart by %.3g before they are averaged, by %.3g after", ranks, alone, together)
    if together != 0 or (ranks > 1 and alone == 0):
        sys.exit("the ranks do not train one model: their gradients are not averaged, or all ranks have the same images")


def train(model: nn.Module, device: torch.device, loader: DataLoader[Any], optimizer: optim.Optimizer) -> float:
    """Train for one epoch; return this rank's mean loss."""
    model.train()
    criterion = nn.CrossEntropyLoss()
    total, batches = 0.0, 0
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        total, batches = total + float(loss.detach()), batches + 1
    return total / batches


def test(model: nn.Module, device: torch.device, loader: DataLoader[Any]) -> float:
    """Return the share of images that are classified right."""
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for images, labels in loader:
            predicted = model(images.to(device)).argmax(dim=1)
            total += labels.size(0)
            correct += int((predicted == labels.to(device)).sum())
    return correct / total


def main() -> None:
    """Train as one of torchrun's ranks."""
    asked = parsed(sys.argv[1:])
    form = "%(levelname) -10s %(asctime)s %(name) -30s %(funcName) -35s %(lineno) -5d: %(message)s"
    logging.basicConfig(level=logging.INFO, format=form)
    seeded(asked.random_seed)
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    torch.distributed.init_process_group(backend="nccl" if cuda else "gloo")
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    logger.info("Rank %d of %d on %s by %s", rank, ranks, device, torch.distributed.get_backend())
    training, testing = data_sets(asked.data, asked.generated)
    sampler: DistributedSampler[Any] = DistributedSampler(training)
    # Generated images are in memory, so no worker processes need to load them.
    workers = min(os.cpu_count() or 1, 8) if isinstance(training, CIFAR10) else 0
    loader: DataLoader[Any] = DataLoader(training, asked.batch_size, num_workers=workers, pin_memory=cuda, sampler=sampler)
    tests: DataLoader[Any] = DataLoader(testing, asked.batch_size, num_workers=workers, pin_memory=cuda)
    model = resnet18(weights=ResNet18_Weights.DEFAULT if asked.pre_trained else None)
    model.fc = nn.Linear(model.fc.in_features, CLASSES)
    trained = DistributedDataParallel(model.to(device), device_ids=[device.index] if cuda else None)
    images, labels = next(iter(loader))
    prove(trained, images.to(device), labels.to(device), nn.CrossEntropyLoss())
    optimizer = optim.SGD(trained.parameters(), lr=asked.learning_rate, momentum=0.9, weight_decay=1e-5)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=200)
    for epoch in range(1, asked.epochs + 1):
        logger.info("Start Epoch %d", epoch)
        sampler.set_epoch(epoch)
        loss = train(trained, device, loader, optimizer)
        logger.info("Epoch: %d, Loss: %.4f", epoch, loss)
        if epoch % TESTED == 0 or epoch == asked.epochs:
            logger.info("Epoch: %d, Accuracy: %.4g", epoch, test(trained, device, tests))
        scheduler.step()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
