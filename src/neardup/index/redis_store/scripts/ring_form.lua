-- Make the record of a ring, unless there is one. KEYS: record, meta of an index. ARGV: 'id', the id;
-- then other fields and values.
-- Returns the id of the ring; '' if an index is here that has no ring.
local id = redis.call('HGET', KEYS[1], 'id')
if id then return id end
if redis.call('EXISTS', KEYS[2]) == 1 then return '' end
redis.call('HSET', KEYS[1], unpack(ARGV))
return ARGV[2]
