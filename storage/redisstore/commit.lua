-- Returns {'ok', per operation: version, sum}, or {'stale', index of the token, reason, highest}, or {'data', index of the operation, reason, have, want}, or {'again', the answer under the idempotency key}.
-- KEYS: per token mark, records, and with an idempotency key: answers of its resource; ARGV: number of tokens, per token number, grant, with an idempotency key: key, fingerprint, ms to keep its answer, number of its resource's token, and per operation kind, position of its token (1..), key, and for put: value, for add: delta, min, for require: version.

local now = incarnation()
if not now then return replica end
if #ARGV == 7 and ARGV[4] == 'put' and #KEYS == 2 then
  local version, refusal = put(now, KEYS[1], KEYS[2], ARGV[2], ARGV[3], ARGV[6], ARGV[7])
  return refusal or {'ok', version, '0'}
end
return carry(now, 0, #KEYS, 1, #ARGV)
