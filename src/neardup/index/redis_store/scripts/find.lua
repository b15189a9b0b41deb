#!lua flags=no-writes
-- Return the members of buckets.
-- KEYS: meta; then slices. ARGV: identity, number of slices, entries.
-- An entry has 2 bytes for the place of its slice in KEYS after meta (from 0), 8 for the bucket's
-- key. Returns the number of slices; then place of entry and members of each bucket that has some.
local meta = redis.call('HMGET', KEYS[1], 'identity', 'slices')
if meta[1] ~= ARGV[1] then return -1 end
local reply = {tonumber(meta[2])}
if meta[2] ~= ARGV[2] then return reply end
local entries = ARGV[3]
for at = 1, #entries, 10 do
  local place, key = struct.unpack('>I2c8', entries, at)
  local members = redis.call('HGET', KEYS[place + 2], key)
  if members then
    reply[#reply + 1] = (at - 1) / 10
    reply[#reply + 1] = members
  end
end
return reply
