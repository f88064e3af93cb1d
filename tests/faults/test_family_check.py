"""The check of families (`make lint`) must find comparisons of a family, and accept its values, tables and tests."""

import lint_scripts

MODULE = "modules/one/src/lib.rs"
TABLE = "plugins/eth/src/dialect.rs"

COMPARISONS = [
    "if profile == Profile::Native {",
    "if Profile::Native == profile {",
    "if reply.dialect != messages::TracerDialect::Reference {",
    "    TracerDialect::Ethereum => &self.logs,",
    "    Some(known) if self.dialect == Dialect::Ethereum => known,",
    "    Dialect::Ethereum | Dialect::Native => 1,",
    "    _ if matches!(dialect, Dialect::Native) => 1,",
    "if let (TracerDialect::Reference, Some(one)) = (dialect, one) {",
    "let TracerDialect::Ethereum = dialect else { return };",
    "if spec.is_native() {",
    "if header.native_seal.is_some() && withdrawals.is_some() {",
    "decoded.filter(|header| header.native_seal.as_ref().is_none())",
    "match &header.native_seal {",
    "let Some(seal) = &header.native_seal else { return };",
]
VALUES = [
    "fn dialect(&self) -> TracerDialect { self.dialect }",
    "let dialect = TracerDialect::Ethereum;",
    "let reply = TraceReply { dialect: TracerDialect::Ethereum, results };",
    "    TracerDialect::Reference",
    "// if dialect == TracerDialect::Reference",
    "answer(&Dialect::ETHEREUM, &history)",
    "let seal = header.native_seal.as_ref().map_or(0, |seal| seal.validators.len());",
    "native_seal: Some(NativeSeal::default()),",
    "require_header_form(header, Profile::Ethereum)?;",
]
# The crate that must be built without native crates.
ETHEREUM_SUITES = {"tests/ethereum/Cargo.toml": '[package]\nname = "tenon-ethereum-tests"\n[dependencies]\none = "1"\n'}


def check(folder, files):
    return lint_scripts.check("check-family.py", folder, ETHEREUM_SUITES | files)


def test_each_comparison_is_counted(tmp_path):
    files = {f"modules/one/src/{index}.rs": line + "\n" for index, line in enumerate(COMPARISONS)}

    code, words = check(tmp_path, files)

    missed = [line for index, line in enumerate(COMPARISONS) if f"modules/one/src/{index}.rs: 1 lines " not in words]
    assert (code, missed) == (1, []), words


def test_a_value_is_not_a_comparison(tmp_path):
    code, words = check(tmp_path, {MODULE: "\n".join(VALUES)})

    assert code == 0, words


def test_tables_and_tests_may_compare(tmp_path):
    comparison = "if dialect == TracerDialect::Reference {\n"
    in_tests = f"#[cfg(test)]\nmod tests {{\n{comparison}"

    code, words = check(tmp_path, {TABLE: comparison, "modules/one/tests/calls.rs": comparison, MODULE: in_tests})

    assert code == 0, words


def test_a_native_crate_below_the_ethereum_suites_is_found(tmp_path):
    native = '[package]\nname = "tenon-native-one"\n'
    between = '[package]\nname = "one"\n[dependencies]\ntenon-native-one = "1"\n'
    manifests = {"modules/native/one/Cargo.toml": native, "core/one/Cargo.toml": between}

    code, words = check(tmp_path, manifests)

    assert code == 1 and "tests/ethereum/Cargo.toml: it or its tests are built with tenon-native-one" in words, words


def test_a_native_crate_below_the_tests_of_a_module_is_found(tmp_path):
    native = '[package]\nname = "tenon-native-one"\n'
    node = '[package]\nname = "test-node"\n[dependencies]\ntenon-native-one = "1"\n'
    tested = '[package]\nname = "two"\n[dev-dependencies]\ntest-node = "1"\n'
    manifests = {"modules/native/one/Cargo.toml": native, "tests/test_node/Cargo.toml": node, "modules/two/Cargo.toml": tested}

    code, words = check(tmp_path, manifests)

    assert code == 1 and "modules/two/Cargo.toml: it or its tests are built with tenon-native-one" in words, words


def test_a_native_crate_named_outside_the_folder_of_families_is_found(tmp_path):
    use = "use tenon_native_spec::NativeSettings;\n"
    files = [f"core/node/src/{name}.rs" for name in ("family/native", "commands/verify_headers", "health/tests", "node")]

    code, words = check(tmp_path, dict.fromkeys(files, use))

    assert (code, words.splitlines()) == (1, [words.strip()]), words
    assert words.startswith("core/node/src/node.rs: names tenon_native_spec"), words


def test_only_listed_crates_depend_on_a_native_one(tmp_path):
    depends = '[package]\nname = "one"\n[dev-dependencies]\ntenon-native-one = "1"\n'
    crates = [f"{name}/Cargo.toml" for name in ("core/node", "device/signing/service", "ipc", "tests/one")]

    code, words = check(tmp_path, dict.fromkeys(crates, depends))

    assert (code, words.splitlines()) == (1, [words.strip()]), words
    assert words.startswith("ipc/Cargo.toml: depends on tenon-native-one"), words


def test_a_native_crate_may_be_tested_with_others(tmp_path):
    native = '[package]\nname = "tenon-native-one"\n'
    tested = '[package]\nname = "tenon-native-two"\n[dev-dependencies]\ntenon-native-one = "1"\n'

    code, words = check(tmp_path, {"modules/native/one/Cargo.toml": native, "modules/native/two/Cargo.toml": tested})

    assert code == 0, words
