"""Gradients are averaged one by one where there are any; on one rank a branch has none.

https://github.com/OpenTSLM/OpenTSLM/pull/49
"""
import torch
import torch.distributed as dist

from reported_job import wait


def average(parameters):
    for parameter in parameters:
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)


def job(ranks):
    trunk, head = torch.nn.Linear(16, 16).to(ranks.device), torch.nn.Linear(16, 4).to(ranks.device)
    parameters = [*trunk.parameters(), *head.parameters()]
    for step in range(4):
        for parameter in parameters:
            parameter.grad = None
        features = trunk(ranks.ones(4, 16))
        if step == 2 and ranks.planted(1):
            features.sum().backward()
        else:
            head(features).sum().backward()
        average(parameters)
        wait()
