#!lua flags=allow-oom
-- Change the states of documents, each only if its state begins as expected.
-- KEYS: meta; the states of a block. ARGV: identity, '1' to stop at the first one that can't be
-- changed; then for each document: offset, the first bytes that are expected ("" for no state), the
-- new state. No document is there twice. The counts of kept documents and of copies are kept up to
-- date.
-- Returns for each document 1, or its state if that is another one, or 0 after a stop.
if redis.call('HGET', KEYS[1], 'identity') ~= ARGV[1] then return -1 end
local reply, counts, stopped, offsets, changed = {}, {K = 0, C = 0, O = 0}, false, {}, {}
for at = 3, #ARGV, 3 do offsets[#offsets + 1] = ARGV[at] end
local states = redis.call('HMGET', KEYS[2], unpack(offsets))
for at = 3, #ARGV, 3 do
  local offset, expected, value = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local stored = states[at / 3] or ''
  local former, kind = string.sub(stored, 1, 1), string.sub(value, 1, 1)
  -- Only its writer decides about a pending document. If it is decided, the writer has done
  -- that before, and the reply was lost; meanwhile it may have been judged again, or removed.
  local decided = former == 'K' or former == 'C' or former == 'O' or former == 'R' or former == 'D'
  local decides = string.sub(expected, 1, 1) == 'P' and (kind == 'K' or kind == 'C')
  if stopped then
    reply[#reply + 1] = 0
  elseif stored == value or (decides and decided) then
    reply[#reply + 1] = 1
  elseif (expected == '' and stored ~= '') or string.sub(stored, 1, #expected) ~= expected then
    reply[#reply + 1] = stored
    stopped = ARGV[2] == '1'
  else
    changed[#changed + 1], changed[#changed + 2] = offset, value
    if counts[former] then counts[former] = counts[former] - 1 end
    if counts[kind] then counts[kind] = counts[kind] + 1 end
    reply[#reply + 1] = 1
  end
end
if #changed > 0 then redis.call('HSET', KEYS[2], unpack(changed)) end
for kind, count in pairs(counts) do
  if count ~= 0 then redis.call('HINCRBY', KEYS[1], kind, count) end
end
return reply
