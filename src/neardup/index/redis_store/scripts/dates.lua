#!lua flags=no-writes
-- Read of the documents of a block when they were added, or their metadata, without the rest of
-- their records. KEYS: states, records. ARGV: "added" or "metadata".
-- Returns the offset and the value of each that is in the index: the time as its 8 bytes, or "" for
-- no metadata.
local kinds, found = {K = true, C = true, O = true}, {}
local states = redis.call('HGETALL', KEYS[1])
for at = 1, #states, 2 do
  local record = kinds[string.sub(states[at + 1], 1, 1)] and redis.call('HGET', KEYS[2], states[at])
  if record and #record >= 30 then
    local id, size = struct.unpack('>Hi4', record, 25)
    found[#found + 1] = states[at]
    if ARGV[1] == 'added' then
      found[#found + 1] = string.sub(record, 17, 24)
    else
      found[#found + 1] = string.sub(record, 31 + id, 30 + id + math.max(size, 0))
    end
  end
end
return found
