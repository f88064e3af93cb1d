// A plugin in C++: `cppchain_state` returns chain id and height together, with two consecutive calls of the namespace
// eth.
//
//     c++ -std=c++17 -shared -fPIC -I ../../sdk/include -o libcpp_chain.so cpp_chain.cpp
#include "tenon_plugin.hpp"

namespace {

struct Instance {
    const TenonHost *host;
};

class State : public tenon::Work {
  public:
    State(const TenonHost &host, const TenonCallContext &context)
        : chain_(host, context, "eth_chainId", "[]"), height_(host, context, "eth_blockNumber", "[]") {}

    bool advance(const TenonWaker *waker, tenon::Answer &answer) override {
        if (chain_json_.empty()) {
            if (!chain_.advance(waker, answer)) return false;
            if (answer.code != 0) return true;
            chain_json_ = answer.body;
        }
        if (!height_.advance(waker, answer)) return false;
        if (answer.code == 0) answer.body = "{\"chainId\":" + chain_json_ + ",\"height\":" + answer.body + "}";
        return true;
    }

  private:
    tenon::Call chain_, height_;
    std::string chain_json_;
};

TenonReply start(const TenonHost *host, TenonSlice, TenonSlice, void **instance) {
    if (host->size < offsetof(TenonHost, call_json) + sizeof host->call_json) {
        return tenon::Answer::error(-32000, "this host is older than call_json").reply();
    }
    *instance = new Instance{host};
    return tenon::Answer::json("").reply();
}

TenonFuture call(void *instance, const TenonCallContext *context, uint32_t, TenonSlice) {
    return tenon::Work::future(std::make_unique<State>(*static_cast<Instance *>(instance)->host, *context));
}

TenonStream subscribe(void *, const TenonCallContext *, uint32_t, TenonSlice) {
    return {nullptr, [](void *, const TenonWaker *, TenonReply *) -> int32_t { return TENON_POLL_END; }, nullptr};
}

TenonReply export_state(void *) { return tenon::Answer::json("").reply(); }

void stop(void *instance) { delete static_cast<Instance *>(instance); }

const TenonMethod *methods() {
    static const TenonMethod list[] = {{tenon::slice("cppchain_state"), TENON_COST_FAST, TENON_METHOD_ONLY_READS,
        tenon::slice(R"({"summary":"Chain id and height.","params":[]})")}};
    return list;
}

const TenonPlugin &plugin() {
    static const TenonPlugin table = [] {
        TenonPlugin table = {};
        table.magic = TENON_PLUGIN_MAGIC;
        table.abi_major = TENON_ABI_MAJOR;
        table.abi_minor = TENON_ABI_MINOR;
        table.needs_minor = 3;
        table.size = sizeof table;
        table.name = tenon::slice("chain data in C++");
        table.namespace_ = tenon::slice("cppchain");
        table.version = tenon::slice("1.0");
        table.built_with = tenon::slice("C++");
        table.capabilities = tenon::slice("ReadChain");
        table.methods = methods();
        table.method_count = 1;
        table.start = start;
        table.call = call;
        table.subscribe = subscribe;
        table.export_state = export_state;
        table.stop = stop;
        return table;
    }();
    return table;
}

} // namespace

extern "C" const TenonPlugin *tenon_plugin_v1(void) { return &plugin(); }
