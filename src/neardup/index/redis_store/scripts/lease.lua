#!lua flags=allow-oom
-- Replace the holder of a lease, if it is the expected one. KEYS: lease. ARGV: expected ("" if there
-- is none), wanted ("" for none). Returns what is stored now.
local stored = redis.call('GET', KEYS[1]) or ''
if stored ~= ARGV[1] then return stored end
if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[2]) end
return ARGV[2]
