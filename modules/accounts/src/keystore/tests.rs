//! Tests with vectors of the standards and of other wallets, malformed files, and the folder.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use alloy_primitives::{Address, address, hex};
use proptest::prelude::*;
use serde_json::{Value, json};
use tenon_api::KeyFileProblem;
use tenon_file_access::FileExposure;
use zeroize::Zeroizing;

use super::*;
use crate::key::Key;

/// The key and the address of the vectors of 6.4.
const SECRET: &str = "7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d";
const ADDRESS: Address = address!("008aeeda4d805471df9b2a5b0f38a0c3bcba786b");
const LIMITS: CostLimits = CostLimits::with_memory(512 << 20);
/// Far too cheap for real secrets, but fast in tests.
const CHEAP: KeyDerivation = KeyDerivation::Scrypt { log_n: 1, r: 1, p: 1 };

fn scrypt_vector() -> Value {
    json!({
        "crypto": {
            "cipher": "aes-128-ctr",
            "ciphertext": "d172bf743a674da9cdad04534d56926ef8358534d458fffccd4e6ad2fbde479c",
            "cipherparams": { "iv": "83dbcc02d8ccb40e466191a123791e0e" },
            "kdf": "scrypt",
            "kdfparams": {
                "dklen": 32, "n": 262_144, "p": 8, "r": 1,
                "salt": "ab0c7876052600dd703518d6fc3fe8984592145b591fc8fb5c6d43190334ba19"
            },
            "mac": "2103ac29920d71da29f15d75b4a16dbe95cfd7ff8faea1056c33131d846e3097"
        },
        "id": "3198bc9c-6672-5ab3-d995-4942343ae5b6",
        "version": 3
    })
}

fn pbkdf2_vector() -> Value {
    json!({
        "crypto": {
            "cipher": "aes-128-ctr",
            "ciphertext": "5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46",
            "cipherparams": { "iv": "6087dab2f9fdbbfaddc31a909735c1e6" },
            "kdf": "pbkdf2",
            "kdfparams": {
                "c": 262_144, "dklen": 32, "prf": "hmac-sha256",
                "salt": "ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd"
            },
            "mac": "517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2"
        },
        "id": "3198bc9c-6672-5ab3-d995-4942343ae5b6",
        "version": 3
    })
}

/// Version 1, made with Python's hashlib and PyCryptodome from the description in 6.4.
fn version_1_vector() -> Value {
    json!({
        "Address": "008aeeda4d805471df9b2a5b0f38a0c3bcba786b",
        "Crypto": {
            "cipher": "aes-128-cbc",
            "ciphertext":
                "bd5b3412f544f06486aeb845da4adb2bceb97b155b3ea625a620f2eb360a18e240750c403c8037c6d59ae5f44b45f32d",
            "cipherparams": { "iv": "6465666768696a6b6c6d6e6f70717273" },
            "kdf": "scrypt",
            "kdfparams": {
                "n": 4096, "r": 8, "p": 1, "dklen": 32,
                "salt": "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
            },
            "mac": "26d0e2a61796431fffb7ea23679b5f3673bb81dd31a303866716b3aef150da99",
            "version": "1"
        },
        "id": "e25f7c1f-d318-4f29-b62c-687190d4d299",
        "version": "1"
    })
}

/// A presale wallet with a published password: `foo`.
fn presale_vector() -> Value {
    json!({
        "encseed": "26d87f5f2bf9835f9a47eefae571bc09f9107bb13d54ff12a4ec095d01f83897494cf34f7bed2ed34126ecba9db7b62de56c9d7cd136520a0427bfb11b8954ba7ac39b90d4650d3448e31185affcd74226a68f1e94b1108e6e0a4a91cdd83eba",
        "ethaddr": "d4584b5f6229b7be90727b0fc8c6b91bb427821f"
    })
}

/// A key whose leading zero bytes old wallets omitted: 31 and 30 bytes.
fn short_key_vectors() -> [(Value, Address); 2] {
    let file = |ciphertext: &str, mac: &str| {
        json!({
            "crypto": {
                "cipher": "aes-128-ctr",
                "ciphertext": ciphertext,
                "cipherparams": { "iv": "6465666768696a6b6c6d6e6f70717273" },
                "kdf": "pbkdf2",
                "kdfparams": {
                    "c": 10, "dklen": 32, "prf": "hmac-sha256",
                    "salt": "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
                },
                "mac": mac
            },
            "version": 3
        })
    };
    [
        (
            file(
                "c2746956d56861a633b3239d9bc2f916f88d027664ef8c5e31cfedcd0c96f1",
                "d45db171d2cb82f52c661bd3922bc1053132074be4902501a2f24ade1e4bf1c9",
            ),
            address!("d1e64e5480bfaf733ba7d48712decb8227797a4e"),
        ),
        (
            file(
                "4332e3dc2f7061f5e05129bcda545cba3623eeadbfd5cf72c0072311b9ac",
                "57ecdad8f1dd8f3a972eb3dd92e7963eef2c2b70a38ad0e765914678a8a8cea4",
            ),
            address!("5257173d96d322863a265c9f609c87b7e0526777"),
        ),
    ]
}

fn parse(file: &Value) -> Result<KeyFile, KeyFileProblem> {
    KeyFile::parse(file.to_string().as_bytes(), &LIMITS)
}

fn open(file: &Value, password: &str) -> Result<Key, KeyFileProblem> {
    parse(file)?.open(password.as_bytes())
}

fn key(secret: &str) -> Key {
    Key::from_secret(Zeroizing::new(hex::decode_to_array(secret).unwrap())).unwrap()
}

#[test]
fn opens_the_recorded_vectors() {
    for file in [scrypt_vector(), pbkdf2_vector(), version_1_vector()] {
        let opened = open(&file, "testpassword").unwrap();

        assert_eq!(opened.address(), ADDRESS);
        assert_eq!(hex::encode(opened.secret().as_slice()), SECRET);
    }
    let presale = open(&presale_vector(), "foo").unwrap();
    assert_eq!(presale.address(), address!("d4584b5f6229b7be90727b0fc8c6b91bb427821f"));
    for (file, wanted) in short_key_vectors() {
        assert_eq!(open(&file, "foo").unwrap().address(), wanted);
    }
}

#[test]
fn a_wrong_password_opens_nothing() {
    for file in [pbkdf2_vector(), version_1_vector(), presale_vector()] {
        for password in ["", "testpassword ", "Testpassword"] {
            assert_eq!(open(&file, password).unwrap_err(), KeyFileProblem::WrongPassword, "{file}");
        }
    }
}

#[test]
fn a_file_of_another_address_is_refused() {
    let mut file = version_1_vector();
    file["Address"] = json!("xdcf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");

    let error = open(&file, "testpassword").unwrap_err();

    let want = address!("f39fd6e51aad88f6f4ce6ab8827279cfffb92266");
    assert_eq!(error, KeyFileProblem::OtherAccount { have: ADDRESS, want });
}

#[test]
fn addresses_are_read_with_every_prefix() {
    for text in ["f39fd6e51aad88f6f4ce6ab8827279cfffb92266", "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"] {
        let mut file = pbkdf2_vector();
        file["address"] = json!(text);
        assert_eq!(parse(&file).unwrap().address(), Some(address!("f39fd6e51aad88f6f4ce6ab8827279cfffb92266")));
    }
    for nothing in [json!(""), json!("0x"), Value::Null] {
        let mut file = pbkdf2_vector();
        file["address"] = nothing;
        assert!(parse(&file).is_ok_and(|file| file.address().is_none()) || file["address"] == json!("0x"));
    }
}

/// A change to the PBKDF2 vector, and its error.
#[test]
fn malformed_files_are_refused_by_name() {
    let cases = [
        ("/crypto/cipher", json!(7), "invalid key file: cipher is not a string"),
        ("/crypto/kdfparams/dklen", json!(16), "invalid key file: dklen is below 32"),
        ("/crypto/kdfparams/dklen", json!(-1), "invalid key file: dklen is not a number from 0 to 2^64-1"),
        ("/crypto/kdfparams/dklen", json!(1.5), "invalid key file: dklen is not a number from 0 to 2^64-1"),
        ("/crypto/kdfparams/c", json!(0), "invalid key file: c is zero"),
        (
            "/crypto/kdfparams/c",
            json!(u64::MAX),
            "opening this key file takes too long: create it again with the standard cost",
        ),
        ("/crypto/kdfparams/salt", json!("0g"), "invalid key file: salt is not hexadecimal"),
        ("/crypto/ciphertext", json!(""), "invalid key file: ciphertext does not have the length of a key"),
        (
            "/crypto/ciphertext",
            json!("00".repeat(33)),
            "invalid key file: ciphertext does not have the length of a key",
        ),
        ("/crypto/ciphertext", json!("000"), "invalid key file: ciphertext is not hexadecimal"),
        ("/crypto/cipherparams/iv", json!("00"), "invalid key file: iv does not have 16 bytes"),
        ("/crypto/mac", json!("00"), "invalid key file: mac does not have 32 bytes"),
        ("/crypto", json!([]), "invalid key file: crypto is not an object"),
        ("/crypto/kdfparams", Value::Null, "invalid key file: kdfparams is not an object"),
    ];
    for (place, value, wanted) in cases {
        let mut file = pbkdf2_vector();
        *file.pointer_mut(place).unwrap() = value;

        assert_eq!(parse(&file).unwrap_err().to_string(), wanted, "{place}");
    }
}

#[test]
fn unsupported_files_are_refused_with_the_beginning_of_what_they_state() {
    let cases = [
        ("/version", json!(4), KeyFileProblem::Version("4".to_owned())),
        ("/version", json!("2"), KeyFileProblem::Version("2".to_owned())),
        ("/version", json!({ "a": 1 }), KeyFileProblem::Version("{\"a\":1}".to_owned())),
        ("/crypto/cipher", json!("aes-256-ctr"), KeyFileProblem::Cipher("aes-256-ctr".to_owned())),
        ("/crypto/kdf", json!("argon2"), KeyFileProblem::Kdf("argon2".to_owned())),
        ("/crypto/kdf", json!("x".repeat(1000)), KeyFileProblem::Kdf("x".repeat(32))),
        ("/crypto/kdfparams/prf", json!("hmac-sha512"), KeyFileProblem::Prf("hmac-sha512".to_owned())),
    ];
    for (place, value, wanted) in cases {
        let mut file = pbkdf2_vector();
        *file.pointer_mut(place).unwrap() = value;

        assert_eq!(parse(&file).unwrap_err(), wanted, "{place}");
    }
}

#[test]
fn other_files_are_refused() {
    let parse = |text: &[u8]| KeyFile::parse(text, &LIMITS).unwrap_err();

    assert_eq!(parse(b"").to_string(), "the key file is not JSON: line 1, column 0");
    assert_eq!(parse(b"[]"), KeyFileProblem::NotJson { line: 1, column: 1 });
    assert_eq!(parse(b"{}").to_string(), "invalid key file: version is missing");
    assert!(matches!(parse("[".repeat(60_000).as_bytes()), KeyFileProblem::NotJson { .. }));
    assert_eq!(parse(&[b' '; MAX_KEY_FILE_BYTES + 1]), KeyFileProblem::TooLong { allowed: MAX_KEY_FILE_BYTES });
    assert_eq!(
        parse(b"{\"encseed\":\"00\",\"ethaddr\":\"\"}").to_string(),
        "invalid key file: encseed is not an initialisation vector followed by whole blocks"
    );
}

#[test]
fn zero_is_not_a_key() {
    // Encrypted as usual, but the plain key is zero.
    let derived = CHEAP.derive(b"", &[]).unwrap();
    let mut ciphertext = [0; 32];
    key_file::apply_counter_cipher(&key_file::first_half(&derived), &[0; 16], &mut ciphertext);
    let file = json!({
        "crypto": {
            "cipher": "aes-128-ctr", "ciphertext": hex::encode(ciphertext), "cipherparams": { "iv": "00".repeat(16) },
            "kdf": "scrypt", "kdfparams": { "dklen": 32, "n": 2, "r": 1, "p": 1, "salt": "" },
            "mac": hex::encode(key_file::checksum(&derived[16..], &ciphertext))
        },
        "version": 3
    });

    assert_eq!(open(&file, "").unwrap_err(), KeyFileProblem::InvalidKey);
}

fn folder(path: &Path, names: FileNames) -> KeyFolder {
    KeyFolder::new(path.join("keystore"), names, CHEAP, LIMITS)
}

fn names(folder: &KeyFolder) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_stored_key_is_private_and_opens_again() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = folder(temporary.path(), FileNames::Prefixed);

    let stored = folder.store(&key(SECRET), "päßwort".as_bytes()).unwrap();

    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(folder.path()), mode(&stored.path)), (0o700, 0o600));
    assert_eq!(names(&folder), [stored.path.file_name().unwrap().to_str().unwrap()]);
    assert!(names(&folder)[0].ends_with("Z--xdc008AeEda4D805471dF9b2A5B0f38A0C3bCBA786b"), "{:?}", names(&folder));
    let file = folder.read(&stored.path).unwrap();
    assert_eq!(file.open("päßwort".as_bytes()).unwrap().address(), ADDRESS);
    assert_eq!(file.open(b"other").unwrap_err(), KeyFileProblem::WrongPassword);
}

#[test]
fn a_new_password_replaces_the_old_one() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = folder(temporary.path(), FileNames::Plain);
    let stored = folder.store(&key(SECRET), b"old").unwrap();

    let refused = folder.change_password(&stored.path, b"wrong", b"new").unwrap_err();
    folder.change_password(&stored.path, b"old", b"new").unwrap();

    assert!(matches!(refused, KeyFolderError::NotEncrypted(KeyFileProblem::WrongPassword)), "{refused}");
    assert_eq!(names(&folder).len(), 1);
    let file = folder.read(&stored.path).unwrap();
    assert_eq!(file.open(b"old").unwrap_err(), KeyFileProblem::WrongPassword);
    assert_eq!(file.open(b"new").unwrap().address(), ADDRESS);
}

#[test]
fn keys_are_created_imported_and_adopted() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = folder(temporary.path(), FileNames::Plain);

    let made = [folder.create(b"1").unwrap(), folder.create(b"1").unwrap()];
    let imported = folder.import(key(SECRET).secret(), b"2").unwrap();
    let adopted = folder.adopt(&parse(&presale_vector()).unwrap(), b"foo", b"3").unwrap();

    assert_ne!(made[0].address, made[1].address);
    assert_eq!(imported.address, ADDRESS);
    assert_eq!(folder.read(&adopted.path).unwrap().check(b"3"), Ok(adopted.address));
    assert_eq!(names(&folder).len(), 4);
    assert!(folder.import(Zeroizing::new([0; 32]), b"").is_err());
}

#[test]
fn an_unwritable_folder_is_named() {
    let temporary = tempfile::tempdir().unwrap();
    fs::write(temporary.path().join("keystore"), "a file").unwrap();
    let folder = folder(temporary.path(), FileNames::Plain);

    let error = folder.store(&key(SECRET), b"").unwrap_err().to_string();

    assert!(error.contains("keystore"), "{error}");
}

#[test]
fn listing_skips_other_files() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = folder(temporary.path(), FileNames::Plain);
    let stored = folder.store(&key(SECRET), b"").unwrap();
    let text = fs::read(&stored.path).unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in [".hidden", "backup~", ".tenon-key-00.tmp"] {
        fs::write(path(name), &text).unwrap();
    }
    fs::write(path("garbage"), [0xff; 100]).unwrap();
    fs::write(path("no-address"), "{\"version\":3}").unwrap();
    fs::write(path("zero"), format!("{{\"address\":\"{}\"}}", "0".repeat(40))).unwrap();
    fs::write(path("long"), format!("{{\"address\":\"{}\"}}{}", hex::encode(ADDRESS), " ".repeat(70_000))).unwrap();
    fs::create_dir(path("folder")).unwrap();
    std::os::unix::fs::symlink(&stored.path, path("link")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), rustix::fs::Mode::RUSR).unwrap();
    let list = KeyList::new(folder.path().to_owned());

    let changes = list.scan().unwrap();

    let only = [ListedKey { address: ADDRESS, path: stored.path.clone() }];
    assert_eq!(list.listed().keys(), only);
    assert_eq!(changes.arrived, only);
    assert!(list.scan().unwrap().is_empty());
    assert!(folder.read(&path("link")).is_err());
    assert!(folder.read(&path("pipe")).unwrap_err().to_string().ends_with("it is not a regular file"));
}

#[test]
fn changes_of_a_folder_are_reported_once() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = folder(temporary.path(), FileNames::Plain);
    let list = KeyList::new(folder.path().to_owned());
    assert!(list.scan().unwrap().is_empty(), "the folder does not exist yet");
    let one = folder.store(&key(SECRET), b"").unwrap();
    let two = folder.path().join("second");
    fs::copy(&one.path, &two).unwrap();
    list.scan().unwrap();
    assert_eq!(list.listed().keys().len(), 2, "two files of one address are both listed");

    folder.change_password(&one.path, b"", b"new").unwrap();
    let rewritten = list.scan().unwrap();
    fs::write(&two, "{\"address\":\"f39fd6e51aad88f6f4ce6ab8827279cfffb92266\"}").unwrap();
    let exchanged = list.scan().unwrap();
    fs::remove_dir_all(folder.path()).unwrap();
    let gone = list.scan().unwrap();

    let listed = |path: &Path, address| ListedKey { address, path: path.to_owned() };
    assert_eq!(rewritten.rewritten, [listed(&one.path, ADDRESS)]);
    assert_eq!((rewritten.arrived.len(), rewritten.dropped.len()), (0, 0));
    let other = address!("f39fd6e51aad88f6f4ce6ab8827279cfffb92266");
    assert_eq!(exchanged.dropped, [listed(&two, ADDRESS)]);
    assert_eq!(exchanged.arrived, [listed(&two, other)]);
    assert_eq!(gone.dropped.len(), 2);
    assert!(list.listed().keys().is_empty() && !list.listed().has(ADDRESS));
}

#[test]
fn files_that_others_can_read_and_a_folder_that_they_can_change_are_named() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = folder(temporary.path(), FileNames::Plain);
    let keys = [folder.create(b"").unwrap(), folder.create(b"").unwrap()];
    let listed = keys.map(|StoredKey { address, path }| ListedKey { address, path });
    assert_eq!(folder.exposed(&listed), []);
    let set = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();

    set(folder.path(), 0o777);
    set(&listed[1].path, 0o666);

    let file = (listed[1].path.clone(), FileExposure::Readable { mode: 0o666 });
    assert_eq!(folder.exposed(&listed), [(folder.path().to_owned(), FileExposure::Writable), file]);
}

#[test]
fn only_old_temporary_files_are_removed() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = folder(temporary.path(), FileNames::Plain);
    fs::create_dir(folder.path()).unwrap();
    let (young, old) = (folder.path().join(".tenon-key-1.tmp"), folder.path().join(".tenon-key-2.tmp"));
    fs::write(&young, "").unwrap();
    let file = fs::File::create(&old).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();

    folder.remove_abandoned();

    assert!(young.exists() && !old.exists());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_sealed_key_opens_only_with_its_password(
        secret in proptest::array::uniform32(1_u8..0xff),
        password in proptest::collection::vec(any::<u8>(), 0..200),
        other in proptest::collection::vec(any::<u8>(), 0..200),
        rounds in 1_u32..5,
        has_scrypt: bool,
    ) {
        let key = Key::from_secret(Zeroizing::new(secret)).unwrap();
        let derivation = if has_scrypt { CHEAP } else { KeyDerivation::Pbkdf2 { rounds } };
        let text = sealed_text::seal(&key, &password, derivation).unwrap();
        let file = KeyFile::parse(text.as_bytes(), &LIMITS).unwrap();

        prop_assert_eq!(file.address(), Some(key.address()));
        prop_assert_eq!(file.memory(), derivation.memory());
        prop_assert_eq!(file.open(&password).unwrap().address(), key.address());
        if same_key(&other) != same_key(&password) {
            prop_assert_eq!(file.open(&other).unwrap_err(), KeyFileProblem::WrongPassword);
        }
    }

    #[test]
    fn a_modified_file_never_yields_another_key(at in 0_usize..600, byte in any::<u8>()) {
        let key = key(SECRET);
        let mut text = sealed_text::seal(&key, b"password", CHEAP).unwrap().into_bytes();
        let at = at % text.len();
        text[at] = byte;

        let limits = CostLimits { memory: 1 << 20, scrypt_work: 1 << 14, pbkdf2_rounds: 1000 };
        if let Ok(file) = KeyFile::parse(&text, &limits) && let Ok(opened) = file.open(b"password") {
            // The checksum does not cover the initial vector, but the address is then another key's.
            prop_assert!(opened.address() == key.address() || file.address().is_none());
        }
    }
}

/// HMAC pads a password with zeros: two that differ only in trailing zeros are equal.
fn same_key(password: &[u8]) -> Vec<u8> {
    if password.len() > 64 {
        use sha2::Digest as _;
        return sha2::Sha256::digest(password).to_vec();
    }
    let end = password.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    password[..end].to_vec()
}
