#include "tessera/launch/authentication.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "tessera/base/check.h"

namespace tessera {

Nonce random_nonce() {
  Nonce nonce;
  check(RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()),
                   static_cast<int>(nonce.size())) == 1,
        "the system gives no random numbers");
  return nonce;
}

Transcript& Transcript::add(Bytes part) {
  add(static_cast<std::uint32_t>(part.size()));
  bytes_.insert(bytes_.end(), part.begin(), part.end());
  return *this;
}

Transcript& Transcript::add(std::uint32_t number) {
  for (int shift = 0; shift < 32; shift += 8)
    bytes_.push_back(static_cast<std::byte>(number >> shift));
  return *this;
}

Proof Transcript::prove(const std::string& secret) const {
  Proof proof;
  unsigned int length = 0;
  const unsigned char* made =
      HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size(),
           reinterpret_cast<unsigned char*>(proof.data()), &length);
  check(made != nullptr && length == proof.size(), "OpenSSL cannot compute HMAC-SHA256");
  return proof;
}

bool Transcript::holds(const std::string& secret, Bytes proof) const {
  const Proof mine = prove(secret);
  return proof.size() == mine.size() && CRYPTO_memcmp(mine.data(), proof.data(), mine.size()) == 0;
}

}  // namespace tessera
