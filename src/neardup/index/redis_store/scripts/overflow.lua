#!lua flags=allow-oom
-- Move a document from a full bucket to the list of the bucket, unless a removal was begun since the
-- leaders of the bucket were counted.
-- KEYS: meta, slice, list, full buckets. ARGV: identity, number of slices, how many removals were
-- begun, the bucket's key, its name, the document's number (4 bytes).
-- Returns the number of slices; nothing is moved if that is another one.
local meta = redis.call('HMGET', KEYS[1], 'identity', 'slices', 'removals')
if meta[1] ~= ARGV[1] then return -1 end
if meta[2] ~= ARGV[2] or (meta[3] or '0') ~= ARGV[3] then return tonumber(meta[2]) end
local members = redis.call('HGET', KEYS[2], ARGV[4]) or ''
for place = 1, #members, 5 do
  if string.sub(members, place + 1, place + 4) == ARGV[6] then
    redis.call('APPEND', KEYS[3], '\0' .. ARGV[6])
    redis.call('SADD', KEYS[4], ARGV[5])
    members = string.sub(members, 1, place - 1) .. string.sub(members, place + 5)
    if members == '' then
      redis.call('HDEL', KEYS[2], ARGV[4])
      redis.call('HINCRBY', KEYS[1], 'buckets', -1)
    else
      redis.call('HSET', KEYS[2], ARGV[4], members)
    end
    break
  end
end
return tonumber(meta[2])
