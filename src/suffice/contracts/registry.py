"""The contracts by name. A new one is one record, given to `register_contract`."""

from __future__ import annotations

from suffice.contracts.base import Contract
from suffice.contracts.centered import CENTERED
from suffice.contracts.conditioned import CONDITIONED
from suffice.contracts.geometry import GEOMETRY

__all__ = ["contract_named", "contract_names", "register_contract"]

_CONTRACTS = {contract.name: contract for contract in (GEOMETRY, CONDITIONED, CENTERED)}


def register_contract(contract: Contract) -> Contract:
    """Make a contract known by its name; another one of the same name is refused."""
    if _CONTRACTS.setdefault(contract.name, contract) is not contract:
        raise ValueError(f"Expected a new name for a contract, but {contract.name!r} is taken")
    return contract


def contract_names() -> list[str]:
    """Every name, in the order in which they were registered."""
    return list(_CONTRACTS)


def contract_named(contract: str | Contract) -> Contract:
    """The contract of this name, or an error that lists the names; a record stands for itself."""
    if isinstance(contract, Contract):
        return contract
    if contract not in _CONTRACTS:
        raise ValueError(f"Expected contract in {sorted(_CONTRACTS)}, but got {contract!r}")
    return _CONTRACTS[contract]
