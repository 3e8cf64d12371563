#!/usr/bin/env python3
"""Holds packaging/kubernetes against schemas, and against what a job needs to be recorded.

  scripts/check_manifests.py              with a Python that has kubernetes-validate and
                                          kubeflow-trainer-api of PyPI
  scripts/check_manifests.py --self-test  breaks the manifests, and has to find each break

Pods are held against the schemas of Kubernetes that kubernetes-validate brings, a TrainJob against
the models of Kubeflow. For what is around the pods of a JobSet, a RayJob and a Volcano Job there is
no package: SCHEMAS, kept by hand, has as much of it as the manifests use, and knows nothing else.
"""
import copy
import os
import re
import sys

import jsonschema
import kubeflow_trainer_api.models
import kubernetes_validate
import pydantic
import yaml

import pack

FOLDER = os.path.join(pack.PACKAGING, "kubernetes")
KUBERNETES = "1.37"
COMMAND = ["/rollcall/bin/rollcall", "run", "-d"]
LIBRARY = "/rollcall/lib/rollcall/librollcall.so"

TEXT, COUNT = {"type": "string"}, {"type": "integer", "minimum": 0}
ANY = {"type": "object"}


def of(required, **properties):
    """An object of these properties and no others."""
    return {"type": "object", "required": required.split(), "additionalProperties": False,
            "properties": properties}


def each(schema):
    return {"type": "array", "minItems": 1, "items": schema}


METADATA = of("name", name=TEXT, labels=ANY)
# The template of a pod is held against Kubernetes' own schema.
POD = of("spec", spec=ANY)
BATCH_JOB = of("template", parallelism=COUNT, completions=COUNT, backoffLimit=COUNT, template=POD)
JOBSET = of(
    "replicatedJobs", failurePolicy=of("", maxRestarts=COUNT),
    replicatedJobs=each(of(
        "name template", name=TEXT, replicas=COUNT,
        template=of("spec", metadata=of("labels", labels=ANY), spec=BATCH_JOB))))
POLICIES = each(of("event action", event={"enum": ["PodFailed", "TaskCompleted"]},
                   action={"enum": ["RestartJob", "CompleteJob"]}))
RAY_GROUP = {"rayStartParams": ANY, "template": POD}
# Versions and kinds, each with the schema of its specification (None: a package has it) and where
# pods are in it.
KINDS = {
    ("v1", "Pod"): (None, ""),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): (
        JOBSET, "replicatedJobs.*.template.spec.template.spec"),
    ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime"): (
        of("template", mlPolicy=of("", numNodes=COUNT, torch=ANY),
           template=of("spec", spec=JOBSET)),
        "template.spec.replicatedJobs.*.template.spec.template.spec"),
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): (None, None),
    ("batch.volcano.sh/v1alpha1", "Job"): (
        of("tasks", schedulerName=TEXT, minAvailable=COUNT, maxRetry=COUNT, policies=POLICIES,
           plugins=of("", svc={"type": "array", "items": TEXT}),
           tasks=each(of("name template", name=TEXT, replicas=COUNT, policies=POLICIES,
                         template=POD))),
        "tasks.*.template.spec"),
    ("ray.io/v1", "RayJob"): (
        of("entrypoint rayClusterSpec", entrypoint=TEXT, runtimeEnvYAML=TEXT,
           shutdownAfterJobFinishes={"type": "boolean"}, rayClusterSpec=of(
               "headGroupSpec", headGroupSpec=of("template", **RAY_GROUP),
               workerGroupSpecs=each(of(
                   "groupName minReplicas maxReplicas template", groupName=TEXT, replicas=COUNT,
                   minReplicas=COUNT, maxReplicas=COUNT, **RAY_GROUP)))),
        "rayClusterSpec.headGroupSpec.template.spec "
        "rayClusterSpec.workerGroupSpecs.*.template.spec"),
}


class Wrong(Exception):
    """What is wrong with a manifest."""


def expect(condition, sentence):
    if not condition:
        raise Wrong(sentence)


def found_at(value, path):
    """What a path like a.*.b leads to."""
    if not path:
        return [value]
    first, _, rest = path.partition(".")
    return [found for one in (value if first == "*" else [value[first]])
            for found in found_at(one, rest)]


def names(entries):
    return {entry["name"]: entry for entry in entries}


def check_pod(kind, pod, needs_command):
    """A pod that Kubernetes takes, and into which the init container brings Rollcall."""
    kubernetes_validate.validate({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"},
                                  "spec": pod}, KUBERNETES, strict=True)
    volumes = names(pod["volumes"])
    install, = pod["initContainers"]
    expect(install["image"].endswith(f"/rollcall:{pack.version()}"),
           f"the image is {install['image']}, and not of version {pack.version()}")
    expect(install["args"] == [install["volumeMounts"][0]["mountPath"]] == ["/rollcall"],
           "the image's program is not told to fill /rollcall")
    volume = install["volumeMounts"][0]["name"]
    expect(volumes[volume].get("emptyDir") == {}, f"{volume} is no emptyDir")
    for container in pod["containers"]:
        mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        expect(mounts.get("/rollcall") == volume, f"{container['name']} has no /rollcall")
        expect(set(mounts.values()) <= set(volumes), f"{container['name']} mounts what is absent")
        expect("/runs" in mounts, f"{container['name']} has no /runs")
        variables = names(container["env"])
        check_references(variables.values())
        expect("ROLLCALL_RUN_ID" in variables, f"{container['name']} has no ROLLCALL_RUN_ID")
        if needs_command:
            check_command(container)
        if kind == "RayJob":
            expect(variables["ROLLCALL_DIR"]["value"].startswith("/runs/"),
                   "a worker does not know where its files go")


def check_references(variables):
    """$(NAME) stands for a variable in front, and for itself where there is none."""
    before = set()
    for variable in variables:
        for name in re.findall(r"\$\((\w+)\)", variable.get("value", "")):
            expect(name in before, f"{variable['name']} refers to {name}, which is not in front")
        before.add(variable["name"])


def check_command(container):
    command = container["command"]
    expect(command[:3] == COMMAND and command[3].startswith("/runs/") and command[4:] == ["--"]
           and container["args"], f"the command is {command}, and not rollcall run")


def check_document(document):
    key = document["apiVersion"], document["kind"]
    expect(key in KINDS, f"{key} is not known here")
    schema, pods = KINDS[key]
    kind, spec = key[1], document["spec"]
    jsonschema.validate(document, of("apiVersion kind metadata spec", apiVersion=TEXT, kind=TEXT,
                                     metadata=METADATA, spec=ANY if schema is None else schema))
    if kind == "TrainJob":
        model = kubeflow_trainer_api.models.TrainerV1alpha1TrainJob
        read = model.from_dict(copy.deepcopy(document))
        expect(read.to_dict() == document, "Kubeflow's model does not know all of it")
        check_command(spec["trainer"])
    if kind == "RayJob":
        variables = yaml.safe_load(spec["runtimeEnvYAML"])["env_vars"]
        expect(variables == {"LD_PRELOAD": LIBRARY}, f"Ray's workers are started with {variables}")
    for path in pods.split(" ") if pods is not None else ():
        for pod in found_at(spec, path):
            check_pod(kind, pod, kind not in ("RayJob", "TrainingRuntime"))
    return key


def documents():
    """Of all manifests: file name -> documents."""
    found = {}
    for name in sorted(os.listdir(FOLDER)):
        with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
            found[name] = list(yaml.safe_load_all(file))
    return found


PROBLEMS = (Wrong, KeyError, TypeError, ValueError, jsonschema.ValidationError,
            kubernetes_validate.ValidationError, pydantic.ValidationError)


def check():
    seen = set()
    for name, parts in documents().items():
        for document in parts:
            try:
                seen.add(check_document(document))
            except PROBLEMS as problem:
                sys.exit(f"check_manifests: {name}, {document.get('kind')}: {problem}")
    if seen != set(KINDS):
        sys.exit(f"check_manifests: there is no manifest of {sorted(set(KINDS) - seen)}")


def misspelt(document):
    """Documents with one key misspelt, each key once; labels are anybody's."""
    def keys(value, path=()):
        for key, part in (value.items() if isinstance(value, dict) else
                          enumerate(value) if isinstance(value, list) else ()):
            yield (*path, key)
            if key != "labels":
                yield from keys(part, (*path, key))

    for *above, last in keys(document):
        broken = copy.deepcopy(document)
        place = broken
        for key in above:
            place = place[key]
        if isinstance(last, str):
            place[last + "x"] = place.pop(last)
            yield [*above, last], broken


# What is no mistake of spelling: a text of the manifests, and what is wrong in its place.
MISTAKES = (
    ("rollcall:" + pack.version(), "rollcall:0.0.1"), ("args: [/rollcall]", "args: [/elsewhere]"),
    ("emptyDir: {}", "emptyDir: {medium: 7}"), ("name: runs", "name: rums"),
    ("run, -d, /runs/", "run, -d, /tmp/"), ("run, -d, /runs/train, --", "run, -d, /runs/train"),
    ("/rollcall/lib/rollcall/", "/rollcall/lib/"), ("value: $(JOB_", "value: $(NOT_"),
    ("value: /runs/", "value: /tmp/"), ("replicas: 2", "replicas: two"),
    ("event: PodFailed", "event: PodFell"), ("fieldPath: ", "fieldPath: 1 #"),
)


def is_wrong(document):
    try:
        check_document(document)
    except PROBLEMS:
        return True
    return False


def self_test():
    tried = 0
    for name, parts in documents().items():
        for document in parts:
            for path, broken in misspelt(document):
                tried += 1
                assert is_wrong(broken), f"{name}: {path} can be misspelt"
    unused = {before for before, _ in MISTAKES}
    for name in documents():
        text = pack.read(FOLDER, name).decode()
        for before, after in MISTAKES:
            if before in text:
                unused.discard(before)
                broken = list(yaml.safe_load_all(text.replace(before, after, 1)))
                assert any(map(is_wrong, broken)), f"{name}: {after} is taken"
    assert tried > 200 and not unused, (tried, unused)
    print(f"check_manifests: self-test passed, {tried} misspelt keys")


def main(words):
    if words == ["--self-test"]:
        self_test()
    elif not words:
        check()
    else:
        print(__doc__)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
