// A thin C++17 layer over tenon_plugin.h: strings, replies, and futures as objects. Copy it next to your plugin.
#ifndef TENON_PLUGIN_HPP
#define TENON_PLUGIN_HPP

#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tenon_plugin.h"

namespace tenon {

inline TenonSlice slice(std::string_view text) {
    return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

inline std::string_view text(TenonSlice slice) {
    return slice.len == 0 ? std::string_view() : std::string_view(reinterpret_cast<const char *>(slice.data), slice.len);
}

// Bytes for the other side, which frees them.
inline TenonBuffer buffer(std::string_view text) {
    if (text.empty()) return {nullptr, 0, 0, nullptr};
    auto *data = new (std::nothrow) uint8_t[text.size()];
    if (data == nullptr) return {nullptr, 0, 0, nullptr};
    std::memcpy(data, text.data(), text.size());
    return {data, text.size(), text.size(), [](uint8_t *data, size_t, size_t) { delete[] data; }};
}

// JSON text returned by a method, or an error with a JSON-RPC code.
struct Answer {
    int32_t code = 0;
    std::string body;

    static Answer json(std::string body) { return {0, std::move(body)}; }
    static Answer error(int32_t code, std::string message) { return {code, std::move(message)}; }
    TenonReply reply() const { return {code, buffer(body), buffer({})}; }
};

// Copies the host's bytes and frees them.
inline std::string take(TenonBuffer bytes) {
    std::string text(bytes.len == 0 ? std::string_view() : std::string_view(reinterpret_cast<const char *>(bytes.data), bytes.len));
    if (bytes.free != nullptr) bytes.free(bytes.data, bytes.len, bytes.capacity);
    return text;
}

// Work that the host polls. `poll` never throws.
class Work {
  public:
    virtual ~Work() = default;
    // Whether it is done; if so, `answer` is set.
    virtual bool advance(const TenonWaker *waker, Answer &answer) = 0;

    static TenonFuture future(std::unique_ptr<Work> work) {
        return {work.release(), poll, [](void *state) { delete static_cast<Work *>(state); }};
    }

  private:
    static int32_t poll(void *state, const TenonWaker *waker, TenonReply *reply) noexcept {
        Answer answer;
        try {
            if (!static_cast<Work *>(state)->advance(waker, answer)) return TENON_POLL_PENDING;
        } catch (const std::exception &problem) {
            answer = Answer::error(-32000, problem.what());
        } catch (...) {
            answer = Answer::error(-32000, "method handler crashed");
        }
        *reply = answer.reply();
        return TENON_POLL_READY;
    }
};

// A call of a method of another namespace. Needs a host of minor number 3.
class Call {
  public:
    Call(const TenonHost &host, const TenonCallContext &context, std::string_view method, std::string_view params)
        : future_(host.call_json(host.state, context.call, slice(method), slice(params))) {}
    Call(const Call &) = delete;
    Call &operator=(const Call &) = delete;
    ~Call() {
        if (future_.drop != nullptr) future_.drop(future_.state);
    }

    // Whether it is done; if so, `answer` is the method's.
    bool advance(const TenonWaker *waker, Answer &answer) {
        TenonReply reply = {0, {nullptr, 0, 0, nullptr}, {nullptr, 0, 0, nullptr}};
        if (future_.poll(future_.state, waker, &reply) == TENON_POLL_PENDING) return false;
        take(reply.data);
        answer = {reply.code, take(reply.body)};
        return true;
    }

  private:
    TenonFuture future_;
};

} // namespace tenon

#endif
