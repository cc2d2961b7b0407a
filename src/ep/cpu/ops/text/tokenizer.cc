// Tokenizer of com.microsoft: the words of texts, between separators or by an expression.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "ep/cpu/ops/contrib/rows.h"
#include "ep/cpu/ops/sequence/objects.h"
#include "ep/cpu/ops/text/code_points.h"
#include "ep/cpu/ops/text/regex.h"
#include "ops/attributes.h"

namespace tenon::cpu::ref {

namespace {

using Words = std::vector<std::string_view>;

struct Tokens {
  // A separator: its text, or an expression.
  struct Separator {
    std::string literal;
    std::optional<Regex> regex;
  };
  bool characters = false;            // each is a token
  std::vector<Separator> separators;  // or what is between these
  std::vector<Regex> expression;      // or what this one matches
  int64_t least = 1;                  // characters of a token
  bool marks = false;                 // a start and an end of the text
  std::string padding;

  bool keeps(std::string_view word) const {
    int64_t count = 0;
    for (; !word.empty() && count < least; ++count) word.remove_prefix(next_code_point(word).length);
    return count >= least;
  }

  // Adds the words of `text` to `found`. The other two are kept between calls, so that these allocate nothing.
  void add_words(std::string_view text, Words& found, Words& whole, Words& parts) const {
    if (!expression.empty()) {
      each_match(expression.front(), text, [&](size_t begin, size_t length) {
        if (keeps(text.substr(begin, length))) found.push_back(text.substr(begin, length));
      });
      return;
    }
    whole.assign(1, text);
    for (const Separator& separator : separators) {
      parts.clear();
      for (std::string_view word : whole) {
        size_t from = 0;
        const auto add = [&](size_t to) {
          if (to > from && keeps(word.substr(from, to - from))) parts.push_back(word.substr(from, to - from));
        };
        const auto cut = [&](size_t begin, size_t length) {
          add(begin);
          from = begin + length;
        };
        if (separator.regex) {
          each_match(*separator.regex, word, cut);
        } else {
          each_place(separator.literal, word, cut);
        }
        add(word.size());
      }
      whole.swap(parts);
    }
    found.insert(found.end(), whole.begin(), whole.end());
  }

 private:
  static void each_place(std::string_view literal, std::string_view text, const auto& body) {
    for (size_t at = text.find(literal); at != std::string_view::npos; at = text.find(literal, at + literal.size()))
      body(at, literal.size());
  }
  // Matches that are not empty, from the left, each as long as it can be.
  template <typename Body>
  static void each_match(const Regex& regex, std::string_view text, const Body& body) {
    for (size_t at = 0; at < text.size();) {
      const size_t length = regex.longest_match(text, at).value_or(0);
      if (length > 0) body(at, length);
      at += length > 0 ? length : next_code_point(text.substr(at)).length;
    }
  }
};

Result<Tokens> read_tokenizer(const Node& node) {
  const Attributes attributes(node);
  Tokens tokens;
  tokens.least = attributes.find_integer("mincharnum").value_or(0);
  TENON_INVALID_IF(tokens.least < 1, "Attribute \"mincharnum\" ({}) has to be positive.", tokens.least);
  tokens.marks = attributes.find_integer("mark").value_or(0) != 0;
  tokens.padding = attributes.find_text("pad_value").value_or("");
  const std::span<const std::string> separators = attributes.texts("separators");
  const std::optional<std::string_view> expression = attributes.find_text("tokenexp");
  TENON_INVALID_IF(separators.empty() == !expression, "Tokenizer needs one of \"separators\" and \"tokenexp\".");
  tokens.characters = expression ? *expression == "." : separators.size() == 1 && separators.front().empty();
  TENON_INVALID_IF(tokens.characters && tokens.least > 1,
                   "Attribute \"mincharnum\" ({}) has to be 1 where each character is a token.", tokens.least);
  if (tokens.characters) return tokens;
  if (expression) {
    TENON_TRY_ASSIGN(Regex regex, Regex::parse(*expression));
    tokens.expression.push_back(std::move(regex));
  }
  for (const std::string& separator : separators) {
    TENON_INVALID_IF(separator.empty(), "Tokenizer has an empty separator beside others.");
    if (separator.find_first_of("\\^$.|?*+()[]{}") == std::string::npos) {
      tokens.separators.push_back({.literal = separator, .regex = std::nullopt});
      continue;
    }
    TENON_TRY_ASSIGN(Regex regex, Regex::parse(separator));
    tokens.separators.push_back({.literal = {}, .regex = std::move(regex)});
  }
  return tokens;
}

// [..., most]; without texts there is no dimension of tokens.
Shape shape_of_tokens(const Shape& x, size_t most) {
  Shape shape = x;
  if (x.element_count() > 0) {
    shape.push_back(static_cast<int64_t>(most));
  } else {
    shape[x.rank() - 1] = 0;
  }
  return shape;
}

// Puts the tokens of each text into its row of the output. `row(i, add)` calls `add` with each of text i: a view, which
// becomes one of `words` texts that the run makes, or the address of one that is there.
template <typename Row>
Status write_rows(KernelContext& context, const TensorSpec& spec, const Shape& x, const Tokens& tokens, size_t most,
                  size_t words, const Row& row) {
  if (most > 0 && tokens.marks) most += 2;
  TENON_TRY_ASSIGN(void* const memory, open_output(context, spec, 0, shape_of_tokens(x, most)));
  if (most == 0) return {};
  TENON_TRY_ASSIGN(RunObjects * objects, run_objects(context));
  std::string* next = objects->add_texts(words + 3).data();
  const auto make = [&](std::string_view text) -> TextAddress {
    next->assign(text);
    return next++;
  };
  const TextAddress padding = make(tokens.padding), first = make("\x02"), last = make("\x03");
  auto* y = static_cast<TextAddress*>(memory);
  for (int64_t i = 0; i < x.element_count(); ++i) {
    TextAddress* const end = y + most;
    if (tokens.marks) *y++ = first;
    row(i, [&](auto token) {
      if constexpr (std::is_same_v<decltype(token), TextAddress>) {
        *y++ = token;
      } else {
        *y++ = make(token);
      }
    });
    if (tokens.marks) *y++ = last;
    y = std::fill_n(y, end - y, padding);
  }
  return {};
}

// The texts of ASCII's characters: where each character is a token, its places share one text.
using AsciiTexts = std::array<std::string, 128>;
std::shared_ptr<const AsciiTexts> ascii_texts() {
  auto made = std::make_shared<AsciiTexts>();
  for (size_t code = 0; code < made->size(); ++code) (*made)[code].assign(1, static_cast<char>(code));
  return made;
}

// Calls `ascii` with each character of ASCII and `other` with the bytes of each other one.
void each_character(std::string_view text, const auto& ascii, const auto& other) {
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 128) {
      ascii(byte);
      ++at;
    } else {
      const size_t length = next_code_point(text.substr(at)).length;
      other(text.substr(at, length));
      at += length;
    }
  }
}

RefImpl make_characters(const Shape& x, Tokens tokens, const TensorSpec& spec) {
  RefImpl impl;
  impl.run = [x, tokens = std::move(tokens), ascii = ascii_texts(), spec](KernelContext& context) -> Status {
    const auto* const texts = context.input<TextAddress>(0);
    size_t most = 0, others = 0;
    for (int64_t i = 0; i < x.element_count(); ++i) {
      size_t characters = 0;
      each_character(
          text_of(texts[i]), [&](size_t) { ++characters; }, [&](std::string_view) { ++characters, ++others; });
      most = std::max(most, characters);
    }
    TENON_TRY_ASSIGN(RunObjects * objects, run_objects(context));
    objects->keep_texts(ascii, *ascii);
    return write_rows(context, spec, x, tokens, most, others, [&](int64_t i, const auto& add) {
      each_character(
          text_of(texts[i]), [&](size_t code) { add(TextAddress(&(*ascii)[code])); },
          [&](std::string_view character) { add(character); });
    });
  };
  return impl;
}

Result<RefImpl> make_tokenizer(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& x = node.inputs[0].shape;
  TENON_INVALID_IF(x.rank() != 1 && x.rank() != 2, "Tokenizer takes [C] or [N,C], not {}.", x.to_string());
  TENON_TRY_ASSIGN(Tokens tokens, read_tokenizer(*node.node));
  if (tokens.characters) return make_characters(x, std::move(tokens), output_spec(node, 0));
  RefImpl impl;
  impl.run = [x, tokens = std::move(tokens), spec = output_spec(node, 0)](KernelContext& context) -> Status {
    const auto* const texts = context.input<TextAddress>(0);
    // The words of kPiece texts each, one behind the other, and where those of each text end.
    constexpr int64_t kPiece = 64;
    struct Piece {
      Words words;
      std::array<size_t, kPiece> ends;
    };
    const int64_t count = x.element_count();
    std::vector<Piece> pieces(static_cast<size_t>((count + kPiece - 1) / kPiece));
    context.pool->parallel_for(std::ssize(pieces), 1, [&](int64_t begin, int64_t end) {
      Words whole, parts;
      for (int64_t p = begin; p < end; ++p) {
        Piece& piece = pieces[static_cast<size_t>(p)];
        for (int64_t i = p * kPiece; i < std::min(count, (p + 1) * kPiece); ++i) {
          tokens.add_words(text_of(texts[i]), piece.words, whole, parts);
          piece.ends[static_cast<size_t>(i % kPiece)] = piece.words.size();
        }
      }
    });
    const auto words_of = [&](int64_t i) {
      const Piece& piece = pieces[static_cast<size_t>(i / kPiece)];
      const auto place = static_cast<size_t>(i % kPiece);
      const size_t begin = place == 0 ? 0 : piece.ends[place - 1];
      return std::span(piece.words).subspan(begin, piece.ends[place] - begin);
    };
    size_t most = 0, words = 0;
    for (int64_t i = 0; i < count; ++i) {
      most = std::max(most, words_of(i).size());
      words += words_of(i).size();
    }
    return write_rows(context, spec, x, tokens, most, words, [&](int64_t i, const auto& add) {
      for (std::string_view word : words_of(i)) add(word);
    });
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<kStringSet, &make_tokenizer>("Tokenizer", 1, kAnyVersion, "com.microsoft"),
};

}  // namespace

std::span<const KernelEntry> tokenizer_rows() { return kRows; }

}  // namespace tenon::cpu::ref
