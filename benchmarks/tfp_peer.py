"""The TFP contender. Runs in .venv-peers: one line of JSON when ready, then one for each line on standard input."""

from __future__ import annotations

import json
import os
import sys
import time

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
from tensorflow_probability.substrates import jax as tfp  # noqa: E402


def main() -> None:
    """Compile, report a checksum, then time one run per request."""
    stored = np.load(sys.argv[1])
    nu, r, k = float(stored["nu"]), jnp.asarray(stored["r"]), jnp.asarray(stored["k"])

    @jax.jit  # type: ignore[untyped-decorator]
    def difference_and_ratio(r: jax.Array, k: jax.Array) -> tuple[jax.Array, jax.Array]:
        at_r = tfp.math.log_bessel_ive(nu, r) + r - nu * jnp.log(r)
        at_k = tfp.math.log_bessel_ive(nu, k) + k - nu * jnp.log(k)
        # bessel_iv_ratio(v) is I_v/I_{v-1}
        return at_r - at_k, tfp.math.bessel_iv_ratio(nu + 1, r)

    difference, ratio = jax.block_until_ready(difference_and_ratio(r, k))
    reply = {
        "jax": jax.__version__,
        "threads": len(os.sched_getaffinity(0)),
        "dtype": str(difference.dtype),
        "difference": np.asarray(difference)[0, :5].tolist(),
        "ratio": np.asarray(ratio)[0, :5].tolist(),
    }
    print(json.dumps(reply), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        jax.block_until_ready(difference_and_ratio(r, k))
        print(json.dumps({"seconds": time.perf_counter() - start}), flush=True)


if __name__ == "__main__":
    main()
