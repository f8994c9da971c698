"""Which Kafka a resource means: home, or another one with its own addresses and credentials. Pure.

In: servers as a resource or ConfigMap names them, and the Secret beside them. Out: the contract's ``Cluster``.
"""

from penstock.contract.model import HOME, Cluster
from penstock.control.addresses import Lookup
from penstock.control.config_maps import BOOTSTRAP
from penstock.control.credentials import check_servers
from penstock.control.kinds import SECRET, annotations_of, is_being_deleted
from penstock.control.names import SECRET_VERSION
from penstock.control.settings import ControllerSettings
from penstock.control.validate_parts import name_problems, servers_problems
from penstock.errors import Misconfigured


def cluster_of(servers: str, secret: tuple[str, str] | None, lookup: Lookup, settings: ControllerSettings) -> Cluster:
    """Misconfigured when the Secret (namespace and name) does not exist."""
    named = ",".join(each.strip() for each in servers.split(",") if each.strip())
    is_home = not named or _is_home(named, settings)
    if not is_home and (problems := servers_problems(named.split(","), BOOTSTRAP)):
        raise Misconfigured(f"{BOOTSTRAP}: {problems[0].message}")
    if secret is None:
        return HOME if is_home else Cluster(named)
    found = lookup(SECRET.name, *secret)
    if found is None or is_being_deleted(found):
        raise Misconfigured(_missing(*secret))
    if not is_home:
        check_servers(named, found, "/".join(secret))
    version = annotations_of(found).get(SECRET_VERSION, "")
    return Cluster(settings.bootstrap_servers if is_home else named, "/".join(secret), version)


def _missing(namespace: str, name: str) -> str:
    if problems := name_problems(name, "its name"):
        return f"Secret {namespace}/{name} cannot exist: {problems[0].field} {problems[0].message}"
    return f"Secret {namespace}/{name} does not exist: apply it in namespace {namespace}"


def complaint(cluster: Cluster, message: str, settings: ControllerSettings) -> str:
    """An error about it, with the cluster named once, and its credentials by a name that the user knows."""
    where = f"Kafka at {cluster.bootstrap_servers or settings.bootstrap_servers}"
    is_kept = "." in cluster.secret.partition("/")[0]  # made of what a source names, and nobody else's to see
    credentials = "credentials of spec.net" if is_kept else f"Secret {cluster.secret}"
    if message.startswith(where):
        return message.replace(f"Secret {cluster.secret}", credentials) if is_kept else message
    return f"{where} ({credentials}): {message}" if cluster.secret else f"{where}: {message}"


def _is_home(servers: str, settings: ControllerSettings) -> bool:
    home = {*_each(settings.bootstrap_servers), *_each(settings.home_aliases)}
    return bool(home & _each(servers))


def _each(servers: str) -> set[str]:
    return {each.strip().lower() for each in servers.split(",") if each.strip()}
