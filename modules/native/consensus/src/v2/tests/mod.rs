//! Tests of engine v2 with data from the reference: recorded chains, real headers, published vectors.

mod parole;
mod recorded;
mod sampling;
mod simulated;
mod tampering;
mod vectors;
