//! Messages of the node, its modules and its network.

use tenon_api::{messages::*, *};

use crate::{
    Frames,
    samples::{HASH, wei},
};

pub(crate) fn node_frames(frames: &mut Frames) {
    frames.request(GetClientVersion, "Tenon".to_owned());
    frames.request(GetNetworkStatus, NetworkStatus { is_listening: true, peers: 3 });
    let status = SyncStatus { starting: BlockNumber(1), current: BlockNumber(2), highest: BlockNumber(3) };
    frames.request(GetSyncStatus, Some(status));
    frames.request(GetSpelling, Spelling::Reference);
    let method = MethodInfo { name: "eth_chainId".to_owned(), description: "{}".to_owned() };
    let namespace = NamespaceInfo {
        namespace: "eth".to_owned(),
        version: "1.0".to_owned(),
        methods: vec![method],
        subscriptions: vec!["logs".to_owned()],
        aliases: vec!["ethereum".to_owned()],
    };
    frames.request(ListNamespaces, vec![namespace]);
    let version = NamespaceVersion {
        namespace: "eth".to_owned(),
        version: "1.0".to_owned(),
        aliases: vec!["ethereum".to_owned()],
    };
    frames.request(ListNamespaceVersions, vec![version]);
    frames.request(GetDataFolder, "/var/lib/tenon".to_owned());
    let start = StartFrontEnd {
        front_end: FrontEnd::WebSocket,
        host: Some("localhost".to_owned()),
        port: Some(8546),
        origins: Some(vec!["https://app.example.org".to_owned()]),
        namespaces: Some(vec!["eth".to_owned()]),
        virtual_hosts: None,
    };
    frames.request(start, ());
    let set = SetExposure {
        front_end: FrontEnd::Http,
        namespaces: Some(vec!["eth".to_owned()]),
        denied_methods: Some(vec!["eth_sign*".to_owned()]),
        token_namespaces: None,
        seconds: Some(600),
        is_reset: false,
    };
    let shown = ExposureReport {
        is_open: true,
        open: vec!["eth".to_owned()],
        with_token: vec!["debug".to_owned(), "eth".to_owned()],
        denied_methods: vec!["eth_sign*".to_owned()],
        until: Some(7),
    };
    frames.request(set, shown);
    frames.event(SyncChanged { status: Some(status) });
}

pub(crate) fn module_frames(frames: &mut Frames) {
    frames.request(ListModules, vec![module_info(), module_actor()]);
    frames.request(GetModule { name: "eth".to_owned() }, module_info());
    let terms = ModuleTerms { grant: Some(vec![Capability::ReadChain]), is_vouched_for: true };
    let change = ModuleChange::Load { path: Some("/eth.so".to_owned()), settings: None, is_enabled: true, terms };
    frames.request(ChangeModule { name: "eth".to_owned(), change, waits_for_drain: true }, module_report());
    let report = SettingsReport {
        modules: vec![module_report()],
        failures: vec![ModuleFailure { module: "mine".to_owned(), reason: "no".to_owned() }],
        needs_restart: vec![ChangedSetting {
            key: "http.port".to_owned(),
            running: Some("8545".to_owned()),
            wanted: None,
        }],
        changed: vec![ChangedSetting {
            key: "http.api".to_owned(),
            running: None,
            wanted: Some("[\"eth\"]".to_owned()),
        }],
    };
    frames.request(ReloadSettings { asked_by: Some("admin".to_owned()) }, report);
    frames.event(ModuleChanged { report: module_report() });
}

fn module_info() -> ModuleInfo {
    let library = LibraryDetails {
        namespace: "eth".to_owned(),
        version: "1.0".to_owned(),
        plugin: "tenon-plugin-eth".to_owned(),
        built_with: "rustc".to_owned(),
        content_hash: "ab".to_owned(),
        isolation: Isolation::Process,
        trust: Trust::Vouched,
        wanted: vec![Capability::ReadChain, Capability::Sign],
        methods: vec!["eth_call".to_owned()],
        subscriptions: vec!["logs".to_owned()],
    };
    let details = ModuleDetails::Plugin(PluginDetails {
        path: "/plugins/eth.so".to_owned(),
        library: Some(library),
        process: Some(7),
        is_required: true,
        granted: vec![Capability::ReadChain],
        running_calls: 1,
        open_subscriptions: 2,
        limits: ModuleLimits {
            memory: Some(1),
            call_millis: Some(2),
            calls: Some(3),
            restarts: Some(4),
            log_lines: Some(5),
        },
        warnings: vec!["memory is not bounded".to_owned()],
        storage: Some(SpaceUsage { records: 11, bytes: 12, max_records: 13, max_bytes: 14 }),
    });
    ModuleInfo {
        name: "eth".to_owned(),
        state: ModuleState::Failed,
        reason: Some("fell over".to_owned()),
        needs: vec!["net >= 1".to_owned()],
        needed_by: vec!["token".to_owned()],
        faults: ModuleFaults {
            restarts: 6,
            last_end: Some("aborted".to_owned()),
            failed_calls: 7,
            panics: 10,
            refused_calls: 8,
            omitted_lines: 9,
        },
        until: Some(15),
        details,
    }
}

fn module_actor() -> ModuleInfo {
    let details = ActorDetails {
        summary: "serves".to_owned(),
        fixed: Some("it is needed".to_owned()),
        health: Some(ActorHealth::Restarting),
        mailbox: Some(MailboxUse { waiting: 16, capacity: 17 }),
        address: Some("127.0.0.1:8545".to_owned()),
        connections: Some(18),
    };
    ModuleInfo { details: ModuleDetails::Actor(details), ..module_info() }
}

fn module_report() -> ModuleReport {
    let build = |version: &str| ModuleBuild { version: version.to_owned(), content_hash: "ab".to_owned() };
    ModuleReport {
        module: "eth".to_owned(),
        operation: ModuleOperation::Replace,
        state: ModuleState::Enabled,
        reason: None,
        old: Some(build("1.0")),
        new: Some(build("1.1")),
        running_calls: 1,
        cancelled_calls: 2,
        abandoned_calls: 3,
        kept_subscriptions: 4,
        closed_subscriptions: 5,
        drain_micros: 6,
        total_micros: 7,
        is_draining: true,
        dependants: vec!["token".to_owned()],
    }
}

pub(crate) fn network_frames(frames: &mut Frames) {
    let node = NetworkNode {
        id: "ab".repeat(64),
        enode: "enode://ab@127.0.0.1:30303".to_owned(),
        ip: "127.0.0.1".to_owned(),
        listen_address: "0.0.0.0:30303".to_owned(),
        discovery_port: 30303,
        listener_port: 30303,
    };
    frames.request(GetNetworkNode, Some(node));
    let chain = PeerChain { version: 100, total_difficulty: wei(7), head: HASH, number: Some(BlockNumber(6)) };
    let peer = PeerInfo {
        id: "cd".repeat(64),
        name: "Tenon".to_owned(),
        capabilities: vec!["eth/100".to_owned()],
        local_address: "127.0.0.1:30303".to_owned(),
        remote_address: "127.0.0.1:50001".to_owned(),
        is_inbound: true,
        is_trusted: false,
        is_static: true,
        connections: 2,
        chain: Some(chain),
    };
    frames.request(ListPeers, vec![peer]);
    frames.request(ChangePeer { url: "enode://ab".to_owned(), change: PeerChange::Trust }, true);
    let error = Some("read timeout".to_owned());
    frames.event(PeerChanged { peer: "cd".repeat(64), is_connected: false, error });
}
