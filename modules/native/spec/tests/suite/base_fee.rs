//! The base fee of native chains.

use tenon_api::Header;
use tenon_native_spec::{NATIVE_BASE_FEE, read_genesis};

fn parent(gas_used: u64, gas_limit: u64, base_fee: Option<u64>) -> Header {
    Header { number: 9, gas_used, gas_limit, base_fee_per_gas: base_fee, ..Header::default() }
}

#[test]
fn the_native_base_fee_is_constant_from_its_fork_on() {
    let file = br#"{"config":{"chainId":77,"eip1559Block":10,"XDPoS":{"epoch":900}},"gasLimit":"0x1","difficulty":"0x1","alloc":{}}"#;
    let spec = read_genesis(file).unwrap().spec;

    assert_eq!(spec.next_base_fee(&Header { number: 8, ..parent(9, 10, None) }), None);
    assert_eq!(spec.next_base_fee(&parent(9, 10, None)), Some(NATIVE_BASE_FEE));
    assert_eq!(spec.gas_limit_baseline(&parent(9, 10, None)), 10);
    assert_eq!(
        spec.next_base_fee(&Header { number: 50, ..parent(9, 10, Some(NATIVE_BASE_FEE)) }),
        Some(NATIVE_BASE_FEE)
    );
}
