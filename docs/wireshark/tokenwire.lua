-- What the frames of a training step are for: a post-dissector for captures of RDMA over Converged Ethernet.
--
-- It stands behind Wireshark's own "infiniband" dissector and adds what the frame alone cannot say: which message it is part of,
-- which training step, layer, pass and collective that message belongs to, and who sent it. That knowledge comes from the
-- trace folder that tokenwire wrote (manifest.json and graph/*.graph), from the comments of its pcapng files, or, for any
-- other capture, from nothing: then messages, retransmissions, gaps and clear-to-send writes are still shown.
--
-- From top to bottom: names, JSON, graphs, the trace folder, comments, flows, invariant CRC, fields, the dissector.
-- Written for the Lua 5.2 of Wireshark 4.0 and 4.2 and the Lua 5.4 of 4.4 and later; not here: any change to a frame.

set_plugin_info {
  version = "1.0.0",
  description = "tokenwire: why each RoCEv2 frame of a training step exists",
}

-- Names: of numbers in docs/graph.proto, as docs/trace-format.md lists them. --------------------------------------------------

local CLASSES = {
  "dp_gradients", "dp_replica_gradients", "zero_all_gather", "tp_forward", "tp_backward", "tp_embedding", "tp_head",
  "tp_cross_entropy", "tp_norm_gradients", "pp_forward", "pp_backward", "tied_embedding", "cp_forward", "cp_backward",
  "ep_dispatch", "ep_combine", "ep_metadata", "expert_gradients", "expert_all_gather", "grad_norm", "loss", "batch_broadcast",
}
local OPERATIONS = { "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "send_recv" }
local PHASES = { "forward", "backward", "end" }

local function set(list)
  local members = {}
  for _, member in ipairs(list) do members[member] = true end
  return members
end

-- JSON: what a manifest needs of it. ---------------------------------------------------------------------------------------

local json = {}
local ESCAPES = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

local function json_string(text, at)
  local stop = at
  repeat
    stop = text:find('["\\]', stop)
    if not stop then error("a string without an end", 0) end
    local escape = text:byte(stop) == 92
    if escape then stop = stop + 2 end
  until not escape
  local value = text:sub(at, stop - 1)
  if value:find("\\", 1, true) then
    -- Names here are ASCII; what lies beyond it in a \u escape has no use in Wireshark's filters.
    value = value:gsub("\\u(%x%x%x%x)", function(code)
      local number = tonumber(code, 16)
      return number < 128 and string.char(number) or "?"
    end):gsub("\\(.)", function(letter) return ESCAPES[letter] or letter end)
  end
  return value, stop + 1
end

local function json_value(text, at)
  at = text:find("%S", at)
  if not at then error("it ends too early", 0) end
  local first = text:sub(at, at)
  if first == '"' then return json_string(text, at + 1) end
  if first == "{" or first == "[" then
    local object, value, count = {}, nil, 0
    local close = first == "{" and "}" or "]"
    at = text:find("%S", at + 1)
    while at and text:sub(at, at) ~= close do
      count = count + 1
      local key = count
      if close == "}" then
        if text:sub(at, at) ~= '"' then error("no key at byte " .. at, 0) end
        key, at = json_string(text, at + 1)
        at = text:match("^%s*:()", at) or error("no colon at byte " .. at, 0)
      end
      value, at = json_value(text, at)
      object[key] = value
      at = text:match("^%s*,%s*()", at) or text:match("^%s*()", at)
    end
    if not at then error("it ends too early", 0) end
    return object, at + 1
  end
  local word, stop = text:match("^([%w%.%+%-]+)()", at)
  if word == "null" then return nil, stop end
  if word == "true" or word == "false" then return word == "true", stop end
  local number = word and tonumber(word)
  if number == nil then error("no value at byte " .. at, 0) end
  return number, stop
end

function json.parse(text)
  return (json_value(text, 1))
end

-- Graphs: length-delimited protobuf. Where the messages are is noted on reading; what they mean is decoded when one is asked for.

local graph = { MAGIC = "TWGRAPH\n" }

-- A whole number up to 2^53 (all that occur here: addresses have 48 bits), and the place behind it.
local function varint(data, at)
  local byte = data:byte(at) or error("it was cut", 0)
  if byte < 128 then return byte, at + 1 end
  local value, scale = byte - 128, 128
  repeat
    at = at + 1
    byte = data:byte(at) or error("it was cut", 0)
    value = value + (byte % 128) * scale
    scale = scale * 128
  until byte < 128
  return value, at + 1
end

-- Calls take(field, value) for each number, and take(field, from, until) for each record within.
local function records(data, at, stop, take)
  local key, value
  while at < stop do
    key, at = varint(data, at)
    local wire = key % 8
    local field = (key - wire) / 8
    if wire == 1 or wire == 5 then -- of fixed length: none that is known here
      at = at + (wire == 1 and 8 or 4)
    else
      value, at = varint(data, at)
      if wire == 0 then
        take(field, value)
      elseif wire == 2 then
        take(field, at, at + value)
        at = at + value
      else
        error("a field of wire type " .. wire .. " at byte " .. at, 0)
      end
    end
  end
end

-- Calls take(message) for each message that the file's nodes send or receive, in order.
function graph.each_message(data, take)
  if data:sub(1, 8) ~= graph.MAGIC then error("it is no graph file", 0) end
  local at, length, key, ended, message = 9, nil, nil, false, nil
  local function of_message(field, value)
    if field == 1 then message.sender = value
    elseif field == 2 then message.sequence = value
    elseif field == 4 then message.bytes = value
    elseif field == 5 then message.immediate = value
    elseif field == 6 then message.first_psn = value end
  end
  while at <= #data do
    length, at = varint(data, at)
    local stop = at + length
    if stop > #data + 1 then error("it was cut in the record at byte " .. at - 1, 0) end
    key = data:byte(at)
    ended = key == 26 -- field 3: the totals
    if key == 18 then -- field 2: a node
      local planned = 0
      _, at = varint(data, at + 1)
      while at < stop do
        local value
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key == 66 or key == 74 then -- fields 8 and 9: send, receive
          message = { sender = 0, sequence = 0, bytes = 0, first_psn = 0, planned = planned, from = at, stop = at + value }
          records(data, at, at + value, of_message)
          take(message)
        elseif key == 32 then
          planned = value
        end
        if key % 8 == 2 then at = at + value end
      end
    end
    at = stop
  end
  if not ended then error("it was cut: it has no totals", 0) end
end

local ORIGIN = {
  "step", "microbatch", "layer", "phase", "class", "operation", "group", "instance", "collective_step", "channel", "slice",
}

-- What a message is for.
function graph.origin(data, from, stop)
  local origin = { step = 0, group = 0, instance = 0, collective_step = 0, channel = 0, slice = 0, offset = 0 }
  records(data, from, stop, function(field, value, until_)
    if field == 8 then
      records(data, value, until_, function(part, number)
        if ORIGIN[part] then origin[ORIGIN[part]] = number end
      end)
    elseif field == 7 then
      origin.address = value
    elseif field == 9 then
      origin.offset = value
    end
  end)
  origin.phase = PHASES[origin.phase]
  origin.class = CLASSES[origin.class]
  origin.operation = OPERATIONS[origin.operation]
  return origin
end

-- The trace folder. --------------------------------------------------------------------------------------------------------

local CIRCLE = 0x1000000 -- packet sequence numbers have 24 bits

local Trace = {}
Trace.__index = Trace

-- "198.18.0.1" and "2001:2::1" as the bytes of a header.
local function address_bytes(text)
  local a, b, c, d = text:match("^(%d+)%.(%d+)%.(%d+)%.(%d+)$")
  if a then return string.char(a, b, c, d) end
  local function groups(part)
    local bytes = {}
    for group in part:gmatch("%x+") do
      local number = tonumber(group, 16)
      bytes[#bytes + 1] = string.char(math.floor(number / 256), number % 256)
    end
    return table.concat(bytes)
  end
  local head, tail = text:match("^(.-)::(.*)$")
  head, tail = groups(head or text), groups(tail or "")
  return head .. ("\0"):rep(16 - #head - #tail) .. tail
end

local function qpn_bytes(qpn)
  return string.char(math.floor(qpn / 65536), math.floor(qpn / 256) % 256, qpn % 256)
end

local function read_file(path)
  local file, why = io.open(path, "rb")
  if not file then error(why, 0) end
  local data = file:read("*a")
  file:close()
  if not data then error(path .. ": it is a folder", 0) end
  return data
end

function Trace.open(folder, before)
  local path = folder .. "/manifest.json"
  local text = read_file(path)
  if before and before.folder == folder and before.text == text then return before end -- the same trace, made again or not
  local parsed, manifest = pcall(json.parse, text)
  if not parsed then error(path .. ": " .. manifest, 0) end
  if type(manifest) ~= "table" or manifest.schema_version ~= 1 then error(path .. ": its schema_version is not 1", 0) end
  local trace = setmetatable({ folder = folder, text = text, manifest = manifest, pairs = {}, by_key = {}, by_qpn = {} }, Trace)
  trace.path_mtu = manifest.transport.path_mtu_bytes
  trace.data, trace.queues = {}, {}
  local nics, hosts, groups = {}, {}, {}
  for _, host in ipairs(manifest.hosts) do hosts[host.id] = host end
  for _, group in ipairs(manifest.groups) do groups[group.id] = group end
  for _, nic in ipairs(manifest.nics) do
    nics[nic.id] = nic
    nic.host = hosts[nic.host]
    for place, address in ipairs(nic.addresses) do nic.addresses[place] = address_bytes(address) end
  end
  trace.groups = groups
  for _, pair in ipairs(manifest.queue_pairs) do
    trace.pairs[pair.id] = pair
    pair.nic = nics[pair.nic]
    for _, address in ipairs(pair.nic.addresses) do trace.by_key[address .. qpn_bytes(pair.qpn)] = pair end
    -- A replay between other addresses keeps the numbers of queue pairs: they decide where they are unique.
    trace.by_qpn[pair.qpn] = trace.by_qpn[pair.qpn] == nil and pair
  end
  for _, pair in ipairs(manifest.queue_pairs) do pair.peer = trace.pairs[pair.peer] end
  return trace
end

-- The queue pair to which frames with this destination go.
function Trace:receiver(key, qpn)
  return self.by_key[key] or self.by_qpn[qpn] or nil
end

-- Notes where the messages of a host's graph are, unless that is done.
function Trace:load(host)
  if self.data[host.id] ~= nil then return end
  self.data[host.id] = false
  local data = read_file(self.folder .. "/" .. host.graph)
  local found, order = {}, {}
  local whole, why = pcall(graph.each_message, data, function(message)
    local queue = found[message.sender]
    if not queue then
      queue = { first = {}, messages = {}, data = data }
      found[message.sender] = queue
    end
    local last = queue.messages[#queue.messages]
    if last and last.sequence > message.sequence then order[message.sender] = true end
    queue.messages[#queue.messages + 1] = message
  end)
  if not whole then error(self.folder .. "/" .. host.graph .. ": " .. why, 0) end
  for sender, queue in pairs(found) do
    if order[sender] then table.sort(queue.messages, function(a, b) return a.sequence < b.sequence end) end
    self:lay_out(queue)
    self.queues[sender] = self.queues[sender] or queue
  end
  self.data[host.id] = data
end

-- NCCL_IB_AR_THRESHOLD: with adaptive routing, the immediate value of longer messages goes in a frame of its own behind them.
local ADAPTIVE_THRESHOLD = 8192

-- Where the messages of a queue stand on the line of sequence numbers, which go around, and how many frames each has.
function Trace:lay_out(queue)
  local messages, apart = queue.messages, false
  for place, message in ipairs(messages) do
    local before = messages[place - 1]
    local first = before and queue.first[place - 1] + (message.first_psn - before.first_psn) % CIRCLE or message.first_psn
    queue.first[place] = first
    message.frames = math.max(1, math.ceil(message.bytes / self.path_mtu))
    if before and first - queue.first[place - 1] == before.frames + 1 then
      before.frames, apart = before.frames + 1, true
    end
  end
  local last = messages[#messages]
  if apart and (last.immediate or last.bytes) > ADAPTIVE_THRESHOLD then last.frames = last.frames + 1 end
end

-- The messages that a queue pair sends: they stand in the graphs of both ends.
function Trace:queue(sender)
  if sender.sends_data == false then return nil end -- it only clears the other end to send
  if not self.queues[sender.id] then
    for _, host in ipairs { sender.nic.host, sender.peer.nic.host } do
      local read, why = pcall(self.load, self, host)
      if not read then self.problem = tostring(why) end
      if self.queues[sender.id] then break end
    end
  end
  return self.queues[sender.id]
end

-- What the message at a place of a queue is for, decoded once.
local function described(queue, place)
  local message = queue.messages[place]
  if message.from then
    for name, value in pairs(graph.origin(queue.data, message.from, message.stop)) do message[name] = value end
    message.from = nil
    message.queue_pair = message.sender
    message.id = message.sender .. "." .. message.sequence
    message.source = "trace"
  end
  return message
end

-- The queue pairs that carry the data of a sending one's connection, by their place in it.
local function connection(trace, sender)
  if not trace.connections then
    trace.connections = {}
    for _, pair in ipairs(trace.manifest.queue_pairs) do
      if pair.connection and pair.sends_data then
        local lanes = trace.connections[pair.connection] or {}
        lanes[pair.lane + 1], trace.connections[pair.connection] = pair, lanes
      end
    end
  end
  return trace.connections[sender.connection or -1] or { sender }
end

-- The message that a clear-to-send write to a queue pair is for: the index counts the messages of its connection from 1, which
-- its queue pairs take in turn, or share. The address decides.
local function cleared(trace, sender, index, address)
  local lanes, number = connection(trace, sender), index - 1
  for _, choice in ipairs { { lanes[number % #lanes + 1], math.floor(number / #lanes) }, { sender, number } } do
    local queue = trace:queue(choice[1])
    local place = queue and choice[2] - queue.messages[1].sequence + 1
    local message = queue and queue.messages[place] and described(queue, place)
    if message and message.address == address then return message end
  end
end

-- Where the trace is, if the preference does not say: beside a capture named on the command line (Linux shows it to the program).
local function trace_beside_capture()
  local file = io.open("/proc/self/cmdline", "rb")
  if not file then return nil end
  local line = file:read("*a")
  file:close()
  for argument in line:gmatch("%Z+") do
    if argument:find("%.pcap") then
      local folder = argument:match("^(.*)/[^/]*$") or "."
      for _, candidate in ipairs { folder .. "/..", folder } do
        local manifest = io.open(candidate .. "/manifest.json", "rb")
        if manifest then
          manifest:close()
          return candidate
        end
      end
    end
  end
end

-- Comments of pcapng files: the first frame of a message says what the message is for. ---------------------------------------

local IS_CLASS, IS_OPERATION, IS_PHASE = set(CLASSES), set(OPERATIONS), set(PHASES)

-- What a comment says, if it is one of tokenwire's: it names a class of traffic.
local function from_comment(comment)
  local found = { source = "comment" }
  for word in comment:gmatch("[%a_][%w_]*") do
    if IS_CLASS[word] then found.class = word
    elseif IS_OPERATION[word] then found.operation = word
    elseif IS_PHASE[word] then found.phase = word end
  end
  if not found.class then return nil end
  local function number(pattern)
    return tonumber(comment:match(pattern))
  end
  found.step = number("^step (%d+)") or number("%f[%a]step (%d+)")
  found.microbatch = number("microbatch (%d+)")
  found.layer = number("layer (%d+)")
  found.group = number("group ?(%d+)")
  found.instance = number("instance (%d+)") or number("group ?%d+#(%d+)")
  found.collective_step = number("collective step (%d+)")
  found.channel = number("channel (%d+)")
  found.slice = number("slice (%d+)")
  found.bytes = number("(%d+) bytes")
  found.rank, found.peer_rank = number("rank (%d+) ?%->"), number("%-> ?rank (%d+)")
  local pair, sequence = comment:match("message %a*(%d+)[#%.](%d+)")
  if pair then
    found.queue_pair, found.sequence = tonumber(pair), tonumber(sequence)
    found.id = pair .. "." .. sequence
  end
  return found
end

-- Flows: what goes to one queue pair, and what its sequence numbers tell. -----------------------------------------------------

-- Of reliable and unreliable connections, by the low five bits of the opcode: bytes of headers behind the base transport header.
local EXTENSIONS = {
  [0x03] = 4, [0x05] = 4, [0x06] = 16, [0x09] = 4, [0x0a] = 16, [0x0b] = 20, [0x0c] = 16, [0x0d] = 4, [0x0f] = 4, [0x10] = 4,
  [0x11] = 4, [0x12] = 12, [0x13] = 28, [0x14] = 28, [0x16] = 4, [0x17] = 4,
}
local STARTS = set { 0x00, 0x04, 0x05, 0x06, 0x0a, 0x0b, 0x0c, 0x13, 0x14, 0x17 }
local ENDS = set { 0x02, 0x03, 0x04, 0x05, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x13, 0x14, 0x16, 0x17 }
local HAS_RETH = set { 0x06, 0x0a, 0x0b, 0x0c }
local CNP = 0x81

-- Further from what is expected than this, numbers were started anew: a new connection on the same queue pair.
local NEW_START = 0x100000

-- The place on the line that has this number and is nearest to another place.
local function nearest(psn, place)
  local distance = (psn - place) % CIRCLE
  if distance >= CIRCLE / 2 then distance = distance - CIRCLE end
  return place + distance
end

-- The index of the last message of a queue that begins at or before a place; the one found before is the best guess.
local function last_before(queue, place)
  local first = queue.first
  local count, guess = #first, queue.guess or 1
  if count == 0 or place < first[1] then return nil end
  local low, high = 1, count
  if first[guess] and first[guess] <= place then
    if guess == count or place < first[guess + 1] then return guess end
    low = guess + 1
  end
  while low < high do
    local middle = math.ceil((low + high) / 2)
    if first[middle] <= place then low = middle else high = middle - 1 end
  end
  queue.guess = low
  return low
end

-- The message at a place, and which of its frames: from 1.
local function message_at(queue, place)
  local index = queue and last_before(queue, place)
  if not index then return nil end
  local message = queue.messages[index]
  local frame = place - queue.first[index] + 1
  if message.frames and frame > message.frames then return nil end
  return described(queue, index), frame
end

local capture -- what is known of the open file

-- Flows are kept apart by interface: a file may hold one frame twice, where it left and where it arrived.
local function new_capture()
  capture = { flows = {}, by_port = {}, cleared = {}, sights = {}, frame = {}, notes = {} }
end

-- The flow to which a frame belongs.
local function flow_of(header)
  local flow = capture.flows[header.interface .. header.key]
  if flow then return flow end
  flow = { holes = {}, sights = {} }
  local trace = capture.trace
  local receiver = trace and trace:receiver(header.key, header.qpn)
  if receiver then
    flow.receiver, flow.sender = receiver, receiver.peer
    flow.queue = trace:queue(receiver.peer)
  end
  flow.known = flow.queue ~= nil
  flow.problem = receiver and not flow.known and trace.problem or nil
  flow.queue = flow.queue or { first = {}, messages = {} }
  capture.flows[header.interface .. header.key] = flow
  return flow
end

-- The flow in the other direction: by the manifest, or by what NICs with one source port for both directions (mlx5) show.
local function answered(flow, header)
  if flow.other then return flow.other end
  if flow.sender then
    for _, address in ipairs(flow.sender.nic.addresses) do
      flow.other = flow.other or capture.flows[header.interface .. address .. qpn_bytes(flow.sender.qpn)]
    end
  end
  if not flow.other and header.source then
    local candidates = capture.by_port[header.interface .. header.source .. header.port]
    if candidates and #candidates == 1 then flow.other = candidates[1] end
  end
  return flow.other
end

-- Where the first frame of a flow stands among the messages of the graph: the sequence numbers go around every 2^24 frames, and
-- time says how often they have.
local function first_place(flow, psn, nanoseconds)
  local queue = flow.queue
  local count = #queue.first
  if count == 0 then return psn end
  local place, best, least = queue.first[1] + (psn - queue.first[1]) % CIRCLE, nil, nil
  while place < queue.first[count] + CIRCLE do
    local index = last_before(queue, place)
    if index and place - queue.first[index] < queue.messages[index].frames then
      local distance = math.abs(queue.messages[index].planned - nanoseconds)
      if not least or distance < least then best, least = place, distance end
    end
    place = place + CIRCLE
  end
  return best or nearest(psn, queue.first[1])
end

-- Takes a place from the holes of a flow; says of one that was missing whether the receiver had asked for it.
local function filled(flow, place)
  for index, hole in ipairs(flow.holes) do
    if hole.from <= place and place <= hole.to then
      if hole.from == hole.to then
        table.remove(flow.holes, index)
      elseif place == hole.from then
        hole.from = place + 1
      elseif place == hole.to then
        hole.to = place - 1
      else
        table.insert(flow.holes, index + 1, { from = place + 1, to = hole.to, asked = hole.asked })
        hole.to = place - 1
      end
      return hole.asked and "asked for" or "not asked for"
    end
  end
  return nil
end

-- A negative acknowledgement asks for all from this place on.
local function asked(flow, place)
  for _, hole in ipairs(flow.holes) do hole.asked = hole.asked or hole.to >= place end
end

-- The NAK for which a frame is sent again: of the first of a row, one not yet answered; of the others, the same.
local function goes_back(flow, place, note)
  if not note.retransmission then
    flow.row = nil
    return nil
  end
  local row, nak = flow.row, flow.nak
  if not row or place <= row.place then
    row = { cause = nak and not nak.answered and nak.place <= place and nak.number or nil }
    if row.cause then nak.answered = true end
    flow.row = row
  end
  row.place = place
  return row.cause
end

local MOST_HOLES = 1024

-- Puts a request in its place, and notes what its number tells.
local function sequence(flow, header, note)
  local place
  if flow.next then
    place = nearest(header.psn, flow.next)
    if math.abs(place - flow.next) > NEW_START then flow.next = nil end
  end
  if not flow.next then
    place = first_place(flow, header.psn, header.nanoseconds)
    flow.next, flow.holes = place, {}
  end
  local ahead = place - flow.next
  if ahead > (flow.slack or 0) then
    note.gap = ahead
    flow.holes[#flow.holes + 1] = { from = flow.next, to = place - 1 }
    if #flow.holes > MOST_HOLES then table.remove(flow.holes, 1) end
  elseif ahead < 0 then
    -- One that was missing and asked for is sent again; one that nobody asked for was overtaken.
    if filled(flow, place) == "not asked for" then note.out_of_order = true else note.retransmission = true end
  end
  if ahead >= 0 then
    flow.slack = nil
    flow.next = place + 1
    -- A READ request takes as many numbers as its response has frames; the path MTU says how many.
    if header.operation == 0x0c then
      local mtu = capture.trace and capture.trace.path_mtu
      local frames = math.max(1, math.ceil((header.dma_length or 0) / (mtu or 256)))
      if mtu then flow.next = place + frames else flow.slack = frames - 1 end
    end
  end
  return place
end

-- The message of a flow that no graph describes: it begins where a frame that can begin one does.
local function learned(flow, header, place)
  local queue = flow.queue
  if STARTS[header.operation] and (#queue.first == 0 or place > queue.first[#queue.first]) then
    local bytes, frames = header.dma_length, nil
    if ENDS[header.operation] then
      bytes, frames = bytes or header.payload, 1
    elseif bytes and header.payload and header.payload > 0 then
      frames = math.ceil(bytes / header.payload)
    end
    queue.first[#queue.first + 1] = place
    queue.messages[#queue.messages + 1] = { bytes = bytes, frames = frames, source = "capture" }
  end
  local message, frame = message_at(queue, place)
  if message and not message.frames and ENDS[header.operation] then message.frames = frame end
  return message, frame
end

-- A clear-to-send write of NCCL's receiver: per request 64 bytes, whose numbers are little-endian.
local function clear_to_send(tvb, header)
  if header.operation ~= 0x0a or header.payload < 64 or header.payload % 64 ~= 0 or header.payload > 512 then return nil end
  if tvb:len() < header.body + 64 then return nil end
  local range = tvb(header.body, 64)
  if range(48, 4):le_uint() * 64 ~= header.payload then return nil end
  return range
end

-- Invariant CRC: CRC-32 over the datagram with ones for what routers may change (IBTA annex A17). ----------------------------

local bxor = bit32 and bit32.bxor or load("return function(a, b, c) return a ~ b ~ (c or 0) end")()

local crc_tables -- of two bytes each, so that four bytes take two look-ups

local function make_crc_tables()
  local bytes, low, high = {}, {}, {}
  for byte = 0, 255 do
    local crc = byte
    for _ = 1, 8 do
      local odd = crc % 2 == 1
      crc = math.floor(crc / 2)
      if odd then crc = bxor(crc, 0xedb88320) end
    end
    bytes[byte] = crc
  end
  local function step(crc)
    return bxor(math.floor(crc / 256), bytes[crc % 256])
  end
  for word = 0, 65535 do
    high[word] = step(step(word))
    low[word] = step(step(high[word]))
  end
  crc_tables = { bytes = bytes, low = low, high = high }
end

-- The register after these bytes.
local function crc32(crc, text)
  if not crc_tables then make_crc_tables() end
  local bytes, low, high = crc_tables.bytes, crc_tables.low, crc_tables.high
  local byte, floor = string.byte, math.floor
  local whole = #text - #text % 4
  for at = 1, whole, 4 do
    local a, b, c, d = byte(text, at, at + 3)
    crc = bxor(crc, a + b * 256 + c * 65536 + d * 16777216)
    local below = crc % 65536
    crc = bxor(low[below], high[(crc - below) / 65536])
  end
  for at = whole + 1, #text do
    local index = bxor(crc % 256, byte(text, at))
    crc = bxor(floor(crc / 256), bytes[index])
  end
  return crc
end

-- The four bytes that should end a frame, as Wireshark shows them, or nothing if the frame was cut.
local function invariant_crc(tvb, header)
  local stop = header.stop
  if not header.ip or tvb:len() < stop or stop < header.bth + 16 then return nil end
  local datagram = tvb:raw(header.ip, stop - 4 - header.ip)
  local udp = header.udp - header.ip -- bytes before the UDP header
  local network
  if udp == 20 then
    network = datagram:sub(1, 1) .. "\255" .. datagram:sub(3, 8) .. "\255" .. datagram:sub(10, 10) .. "\255\255"
      .. datagram:sub(13, 20)
  else
    network = "\111\255\255\255" .. datagram:sub(5, 7) .. "\255" .. datagram:sub(9, 40)
  end
  local transport = datagram:sub(udp + 1, udp + 6) .. "\255\255" .. datagram:sub(udp + 9, udp + 12) .. "\255"
  local crc = crc32(0xffffffff, ("\255"):rep(8) .. network .. transport .. datagram:sub(udp + 14))
  crc = bxor(crc, 0xffffffff)
  local a, b = crc % 256, math.floor(crc / 256) % 256
  local c, d = math.floor(crc / 65536) % 256, math.floor(crc / 16777216)
  return a * 16777216 + b * 65536 + c * 256 + d
end

-- Fields. --------------------------------------------------------------------------------------------------------------------

local tokenwire = Proto("tokenwire", "tokenwire")

local field = {}
local function declare(name, make, ...)
  local key = name:gsub("%.", "_")
  field[key] = make("tokenwire." .. name, ...)
end

declare("kind", ProtoField.string, "Kind", base.NONE, "What the frame does in its conversation")
declare("opcode", ProtoField.string, "Opcode", base.NONE, "In short")
declare("rank", ProtoField.uint32, "Rank", base.DEC, nil, nil, "The rank that sends the frame")
declare("peer_rank", ProtoField.uint32, "Peer rank", base.DEC, nil, nil, "The rank that the frame goes to")
declare("host", ProtoField.string, "Host")
declare("peer_host", ProtoField.string, "Peer host")
declare("nic", ProtoField.string, "NIC")
declare("peer_nic", ProtoField.string, "Peer NIC")
declare("step", ProtoField.uint32, "Training step")
declare("microbatch", ProtoField.uint32, "Microbatch")
declare("layer", ProtoField.uint32, "Layer")
declare("phase", ProtoField.string, "Phase", base.NONE, "forward, backward or end")
declare("class", ProtoField.string, "Class", base.NONE, "Which parallelism needs it, and for which tensor")
declare("operation", ProtoField.string, "Operation")
declare("group", ProtoField.uint32, "Group")
declare("group.name", ProtoField.string, "Group's name")
declare("instance", ProtoField.uint32, "Instance", base.DEC, nil, nil, "The how-manieth operation of its group, from zero")
declare("collective_step", ProtoField.uint32, "Collective step")
declare("channel", ProtoField.uint32, "Channel")
declare("slice", ProtoField.uint32, "Slice")
declare("message", ProtoField.string, "Message", base.NONE, "The queue pair that sends it and its sequence there")
declare("message.queue_pair", ProtoField.uint32, "Message's queue pair")
declare("message.sequence", ProtoField.uint32, "Message's sequence")
declare("message.bytes", ProtoField.uint32, "Message's bytes")
declare("message.frames", ProtoField.uint32, "Message's frames")
declare("message.frame", ProtoField.uint32, "Frame of the message", base.DEC, nil, nil, "From 1")
declare("offset", ProtoField.uint64, "Offset", base.DEC, nil, nil, "Where the payload stands in the operation's buffer")
declare("message.first_in", ProtoField.framenum, "Message begins in", base.NONE)
declare("message.last_in", ProtoField.framenum, "Message ends in", base.NONE)
declare("message.duration", ProtoField.relative_time, "First to last frame of the message")
declare("acknowledges", ProtoField.framenum, "Acknowledges message that ends in", base.NONE, frametype.ACK)
declare("acknowledged_in", ProtoField.framenum, "Acknowledged in", base.NONE)
declare("acknowledged_after", ProtoField.relative_time, "Time since the message's last frame")
declare("source", ProtoField.string, "Known from", base.NONE, "trace, comment or capture")
declare("retransmission", ProtoField.bool, "Retransmission", base.NONE, nil, nil,
  "Its sequence number was sent before, or asked for")
declare("out_of_order", ProtoField.bool, "Out of order")
declare("gap", ProtoField.uint32, "Frames missing before this one")
declare("duplicate_ack", ProtoField.bool, "Duplicate acknowledgement")
declare("caused_by", ProtoField.framenum, "Caused by", base.NONE)
declare("fecn", ProtoField.bool, "Forward congestion notification", 8, nil, 0x80)
declare("becn", ProtoField.bool, "Backward congestion notification", 8, nil, 0x40)
declare("cts", ProtoField.none, "Clear to send")
declare("cts.address", ProtoField.uint64, "Address", base.HEX)
declare("cts.size", ProtoField.uint64, "Size")
declare("cts.remote_key", ProtoField.uint32, "Remote key", base.HEX)
declare("cts.requests", ProtoField.uint32, "Requests")
declare("cts.tag", ProtoField.uint32, "Tag")
declare("cts.index", ProtoField.uint64, "Index")
declare("cts.in", ProtoField.framenum, "Cleared to send in", base.NONE)
declare("stamp", ProtoField.none, "Measurement stamp")
declare("stamp.class", ProtoField.uint8, "Class", base.DEC, CLASSES)
declare("stamp.run", ProtoField.uint32, "Run", base.HEX)
declare("stamp.sequence", ProtoField.uint64, "Sequence")
declare("stamp.intended", ProtoField.uint64, "Intended time (ns)")
declare("stamp.departure", ProtoField.uint64, "Actual departure (ns)")
declare("stamp.lateness", ProtoField.int64, "Lateness (ns)")
declare("icrc", ProtoField.uint32, "Computed invariant CRC", base.HEX)
declare("icrc.good", ProtoField.bool, "Invariant CRC is right")
declare("problem", ProtoField.string, "Problem")

tokenwire.fields = field

local function remark(name, text, group, severity)
  return ProtoExpert.new("tokenwire.expert." .. name, text, expert.group[group], expert.severity[severity])
end

local note_expert = {
  retransmission = remark("retransmission", "Retransmission", "SEQUENCE", "NOTE"),
  out_of_order = remark("out_of_order", "Out of order", "SEQUENCE", "NOTE"),
  gap = remark("gap", "Frames are missing before this one", "SEQUENCE", "WARN"),
  duplicate_ack = remark("duplicate_ack", "Duplicate acknowledgement", "SEQUENCE", "NOTE"),
}
local icrc_expert = remark("icrc", "Invariant CRC is wrong", "CHECKSUM", "ERROR")
local problem_expert = remark("problem", "The trace folder cannot be used", "UNDECODED", "WARN")
tokenwire.experts = {
  note_expert.retransmission, note_expert.out_of_order, note_expert.gap, note_expert.duplicate_ack, icrc_expert, problem_expert,
}

tokenwire.prefs.trace = Pref.string("Trace folder", "",
  "The folder that tokenwire generate wrote. Empty: where the capture named on the command line lies.")
tokenwire.prefs.check_icrc = Pref.bool("Check invariant CRCs", false,
  "Compute the invariant CRC of each frame. Wireshark itself does not; it takes some tenths of a millisecond a frame.")
tokenwire.prefs.stamps = Pref.bool("Show measurement stamps", true,
  "Show what a replay writes at the beginning of payloads.")
tokenwire.prefs.mark_info = Pref.bool("Mark the Info column", true,
  "Put retransmissions, gaps, CNPs and clear-to-send writes before the text of the Info column.")

-- The dissector. -------------------------------------------------------------------------------------------------------------

local transport_header = Field.new("infiniband.bth")
local frame_comment = Field.new("frame.comment")
local frame_interface = Field.new("frame.interface_id")

local function integer(text, at, count)
  local value = 0
  for place = at, at + count - 1 do value = value * 256 + text:byte(place) end
  return value
end

-- What the headers say, from the bytes around the base transport header.
local function parse(tvb, pinfo, bth)
  local start = math.max(0, bth - 48)
  local around = tvb:raw(start, math.min(tvb:len() - start, bth - start + 40))
  local at = bth - start + 1
  if #around < at + 11 then return nil end
  local header = { bth = bth, opcode = around:byte(at), flags = around:byte(at + 4) }
  header.operation = header.opcode < 0x40 and header.opcode % 32 or nil
  header.qpn, header.psn = integer(around, at + 5, 3), integer(around, at + 9, 3)
  if at > 28 and around:byte(at - 28) == 0x45 and around:byte(at - 19) == 17 then
    header.ip, header.source, header.target = bth - 28, around:sub(at - 16, at - 13), around:sub(at - 12, at - 9)
  elseif at > 48 and math.floor(around:byte(at - 48) / 16) == 6 and around:byte(at - 42) == 17 then
    header.ip, header.source, header.target = bth - 48, around:sub(at - 40, at - 25), around:sub(at - 24, at - 9)
  end
  if header.ip then
    -- The last two bits of the traffic class: 3 is congestion experienced.
    local class = header.ip == bth - 28 and around:byte(at - 27) or math.floor(around:byte(at - 47) / 16)
    header.marked = class % 4 == 3
    header.udp = bth - 8
    header.port = around:sub(at - 8, at - 7)
    header.stop = header.udp + integer(around, at - 4, 2)
  else
    header.target = tostring(pinfo.dst) -- another encapsulation: its addresses are as good as any
    header.stop = tvb:reported_len()
  end
  header.key = header.target .. around:sub(at + 5, at + 7)
  local interface = frame_interface()
  header.interface = interface and interface.value or 0
  if header.operation then
    header.body = bth + 12 + (EXTENSIONS[header.operation] or 0)
    local pad = math.floor(around:byte(at + 1) / 16) % 4
    header.payload = math.max(0, header.stop - 4 - pad - header.body)
    if HAS_RETH[header.operation] and #around >= at + 27 then header.dma_length = integer(around, at + 24, 4) end
    if header.operation == 0x11 and #around >= at + 15 then
      header.syndrome, header.msn = around:byte(at + 12), integer(around, at + 13, 3)
    end
  end
  return header
end

local ANSWERS = {
  [0x0d] = "read_response", [0x0e] = "read_response", [0x0f] = "read_response", [0x10] = "read_response",
  [0x12] = "atomic_acknowledgement",
}

local function kind_of(header, cts)
  local operation = header.operation
  if header.opcode == CNP then return "cnp" end
  if header.qpn <= 1 then return "management" end
  if not operation then return "other" end
  if operation == 0x11 then
    local what = math.floor((header.syndrome or 0) / 32)
    return what == 0 and "acknowledgement" or what == 1 and "rnr_nak" or "nak"
  end
  if ANSWERS[operation] then return ANSWERS[operation] end
  if cts then return "clear_to_send" end
  if operation == 0x0c then return "read_request" end
  if operation == 0x13 or operation == 0x14 then return "atomic" end
  return "data"
end

-- Of a message: in which frames of this file it is.
local function sight_of(flow, message)
  local sight = flow.sights[message]
  if not sight then
    sight = { message = message }
    flow.sights[message] = sight
  end
  return sight
end

-- On the first visit of a frame: what it is part of, and what its numbers tell. Frames are visited in order.
local function study(tvb, pinfo, header, kind, cts)
  local number, now = pinfo.number, pinfo.rel_ts
  local flow = flow_of(header)
  local note = {}
  local sight, frame
  if kind == "acknowledgement" or kind == "nak" or kind == "rnr_nak" then
    local other = answered(flow, header)
    if flow.answer and flow.answer.psn == header.psn and flow.answer.syndrome == header.syndrome
      and flow.answer.msn == header.msn and kind ~= "rnr_nak" then
      note.duplicate_ack = true
    end
    flow.answer = header
    if other and other.next then
      local place = nearest(header.psn, other.next - 1)
      if kind ~= "acknowledgement" then
        asked(other, place)
        note.caused_by = kind == "nak" and other.gap_in or nil
        other.nak = { number = number, place = place }
      end
      local message
      message, frame = message_at(other.queue, place)
      sight = message and sight_of(other, message)
      if sight and kind == "acknowledgement" and frame == message.frames and not sight.acknowledged_in then
        sight.acknowledged_in = number
        note.acknowledges, note.after = sight.last_in, sight.last_at and now - sight.last_at
      end
    end
  elseif kind == "cnp" then
    local other = answered(flow, header)
    note.caused_by = other and other.marked_in
  elseif header.operation and not ANSWERS[header.operation] and kind ~= "management" then
    if header.source then
      -- Known by its ports, for answers whose queue pair no manifest tells.
      local key = header.interface .. header.target .. header.port
      local list = capture.by_port[key] or {}
      if not flow.listed then
        list[#list + 1], flow.listed = flow, true
        capture.by_port[key] = list
      end
    end
    header.nanoseconds = capture.epoch and pinfo.abs_ts * 1e9 - capture.epoch or 0
    local place = sequence(flow, header, note)
    note.caused_by = goes_back(flow, place, note)
    if note.gap then flow.gap_in = number end
    if header.marked then flow.marked_in = number end
    local message
    if flow.known then message, frame = message_at(flow.queue, place) else message, frame = learned(flow, header, place) end
    if message then
      sight = sight_of(flow, message)
      if frame == 1 then
        local comment = frame_comment()
        local said = comment and from_comment(tostring(comment.value))
        if said then sight.message = setmetatable(said, { __index = message }) end
        sight.first_in, sight.first_at = sight.first_in or number, sight.first_at or now
      end
      if frame == message.frames then sight.last_in, sight.last_at = number, now end
    end
    if cts then
      capture.cleared[header.interface .. header.target .. tostring(cts(0, 8):le_uint64())] = number
      local why = flow.receiver and cleared(capture.trace, flow.receiver, cts(56, 4):le_uint(), cts(0, 8):le_uint64():tonumber())
      if why and sight then sight.message, sight.clears = why, true end
    elseif kind == "data" and header.dma_length and header.source then
      note.cleared_in = capture.cleared[header.interface .. header.source .. tostring(tvb(header.bth + 12, 8):uint64())]
    end
  end
  -- A clear-to-send write and its acknowledgement tell of the message that they clear, and are none of its frames.
  if sight and sight.clears then frame = nil end
  capture.sights[number], capture.frame[number] = sight, frame
  if next(note) then
    note.mark = note.retransmission and "[Retransmission] " or note.out_of_order and "[Out of order] "
      or note.duplicate_ack and "[Duplicate ACK] " or note.gap and "[" .. note.gap .. " missing] " or nil
    capture.notes[number] = note
  end
end

local function relative(seconds)
  local nanoseconds = math.floor(seconds * 1e9 + 0.5)
  return NSTime.new(math.floor(nanoseconds / 1e9), nanoseconds % 1e9)
end

-- One line: step 0, layer 3, backward, dp_gradients: all_reduce, data.
local function summary(message, kind)
  local parts = {}
  if message.step then parts[#parts + 1] = "step " .. message.step end
  if message.microbatch then parts[#parts + 1] = "microbatch " .. message.microbatch end
  if message.layer then parts[#parts + 1] = "layer " .. message.layer end
  if message.phase then parts[#parts + 1] = message.phase end
  if message.class then parts[#parts + 1] = message.class .. ": " .. (message.operation or "?") end
  parts[#parts + 1] = kind
  return table.concat(parts, ", ")
end

local WHY = {}
for _, name in ipairs(ORIGIN) do
  WHY[#WHY + 1] = { name, field[name] }
end

-- Trees that nobody looks at get only what a filter, a column or a tap asks for.
local visible

local function put(tree, which, value)
  if visible then
    tree:add(which, value):set_generated()
  elseif tree:referenced(which) then
    tree:add(which, value)
  end
end

local ANSWER = set { "acknowledgement", "nak", "rnr_nak" }

local function show_ends(tree, flow, kind, message)
  if flow and flow.sender then
    local from, to = flow.sender, flow.receiver
    put(tree, field.rank, from.rank)
    put(tree, field.peer_rank, to.rank)
    put(tree, field.host, from.nic.host.name)
    put(tree, field.peer_host, to.nic.host.name)
    put(tree, field.nic, from.nic.name)
    put(tree, field.peer_nic, to.nic.name)
  elseif message and message.rank and message.peer_rank then
    local from, to = message.rank, message.peer_rank
    if ANSWER[kind] then from, to = to, from end
    put(tree, field.rank, from)
    put(tree, field.peer_rank, to)
  end
end

local function show_message(tree, sight, frame)
  local message = sight.message
  for _, why in ipairs(WHY) do
    local value = message[why[1]]
    if value then put(tree, why[2], value) end
    if why[1] == "group" then
      local group = value and capture.trace and capture.trace.groups[value]
      if group then put(tree, field.group_name, group.name) end
    end
  end
  if message.id then
    put(tree, field.message, message.id)
    put(tree, field.message_queue_pair, message.queue_pair)
    put(tree, field.message_sequence, message.sequence)
  end
  if message.bytes then put(tree, field.message_bytes, message.bytes) end
  if message.frames then put(tree, field.message_frames, message.frames) end
  if frame then put(tree, field.message_frame, frame) end
  if frame and message.offset then put(tree, field.offset, UInt64(message.offset + (frame - 1) * capture.trace.path_mtu)) end
  if not sight.clears then
    if sight.first_in then put(tree, field.message_first_in, sight.first_in) end
    if sight.last_in then put(tree, field.message_last_in, sight.last_in) end
    if sight.first_at and sight.last_at then put(tree, field.message_duration, relative(sight.last_at - sight.first_at)) end
  end
  if sight.acknowledged_in then put(tree, field.acknowledged_in, sight.acknowledged_in) end
  put(tree, field.source, message.source)
end

local INFO = { cnp = "[CNP] ", clear_to_send = "[CTS] " }
local NOTES = { "retransmission", "out_of_order", "duplicate_ack" }

local function show_note(tree, note)
  for _, name in ipairs(NOTES) do
    if note[name] then
      local item = tree:add(field[name], true)
      item:set_generated()
      item:add_proto_expert_info(note_expert[name])
    end
  end
  if note.gap then
    local item = tree:add(field.gap, note.gap)
    item:set_generated()
    item:add_proto_expert_info(note_expert.gap, note.gap .. " frames are missing before this one")
  end
  if note.caused_by then put(tree, field.caused_by, note.caused_by) end
  if note.acknowledges then put(tree, field.acknowledges, note.acknowledges) end
  if note.after then put(tree, field.acknowledged_after, relative(note.after)) end
  if note.cleared_in then put(tree, field.cts_in, note.cleared_in) end
end

local function show_clear_to_send(tree, cts)
  local under = tree:add(field.cts, cts)
  under:add_le(field.cts_address, cts(0, 8))
  under:add_le(field.cts_size, cts(8, 8))
  under:add_le(field.cts_remote_key, cts(16, 4))
  under:add_le(field.cts_requests, cts(48, 4))
  under:add_le(field.cts_tag, cts(52, 4))
  under:add_le(field.cts_index, cts(56, 8))
end

-- What a replay writes at the beginning of a payload: docs/measurement.md.
local function show_stamp(tree, tvb, header)
  if header.payload < 32 or tvb:len() < header.body + 32 then return end
  local range = tvb(header.body, 32)
  if range(0, 3):uint() ~= 0x747701 then return end
  local under = tree:add(field.stamp, range)
  under:add(field.stamp_class, range(3, 1))
  under:add(field.stamp_run, range(4, 4))
  under:add(field.stamp_sequence, range(8, 8))
  under:add(field.stamp_intended, range(16, 8))
  under:add(field.stamp_departure, range(24, 8))
  under:add(field.stamp_lateness, range(24, 8):int64() - range(16, 8):int64()):set_generated()
end

local function show_icrc(tree, tvb, header)
  local computed = invariant_crc(tvb, header)
  if not computed then return end
  local good = tvb(header.stop - 4, 4):uint() == computed
  local item = tree:add(field.icrc, tvb(header.stop - 4, 4), computed)
  item:set_generated()
  put(tree, field.icrc_good, good)
  if not good then item:add_proto_expert_info(icrc_expert) end
end

local VERBS = {
  [0] = "SEND First", "SEND Middle", "SEND Last", "SEND Last+Imm", "SEND Only", "SEND Only+Imm",
  "WRITE First", "WRITE Middle", "WRITE Last", "WRITE Last+Imm", "WRITE Only", "WRITE Only+Imm",
  "READ Request", "READ Response First", "READ Response Middle", "READ Response Last", "READ Response Only",
  "ACK", "Atomic ACK", "CmpSwap", "FetchAdd", nil, "SEND Last+Inv", "SEND Only+Inv",
}
local NAKS = { [0] = "sequence", "invalid request", "remote access", "remote operation", "invalid RD request" }
-- Of a receiver that is not ready, in hundredths of a millisecond.
local TIMERS = {
  [0] = 65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144,
  8192, 12288, 16384, 24576, 32768, 49152,
}

local function short_opcode(header)
  if header.opcode == CNP then return "CNP" end
  local family, operation = math.floor(header.opcode / 32), header.opcode % 32
  if operation == 0x11 and header.syndrome then
    local what, value = math.floor(header.syndrome / 32), header.syndrome % 32
    if what == 1 then return ("RNR NAK %.2f ms"):format(TIMERS[value] / 100) end
    if what == 3 then return "NAK " .. (NAKS[value] or value) end
  end
  local verb = VERBS[operation] or ("0x%02x"):format(operation)
  local prefix = family == 1 and "UC " or family == 3 and "UD " or family == 5 and "XRC " or ""
  return prefix .. verb
end

local myself -- tells whether anybody asks for any of the fields

local function show(tvb, pinfo, tree, header, kind, cts)
  local number = pinfo.number
  local sight, note = capture.sights[number], capture.notes[number]
  local flow = capture.flows[header.interface .. header.key]
  local under = tree:add(tokenwire, tvb(header.bth, math.min(12, tvb:len() - header.bth)))
  put(under, field.kind, kind)
  put(under, field.opcode, short_opcode(header))
  show_ends(under, flow, kind, sight and sight.message)
  if sight then
    if visible then under:set_text("tokenwire: " .. summary(sight.message, kind)) end
    show_message(under, sight, capture.frame[number])
  elseif visible then
    under:set_text("tokenwire: " .. kind)
  end
  if cts then show_clear_to_send(under, cts) end
  if note then show_note(under, note) end
  if header.flags >= 64 then
    under:add(field.fecn, tvb(header.bth + 4, 1))
    under:add(field.becn, tvb(header.bth + 4, 1))
  end
  if tokenwire.prefs.stamps and kind == "data" then show_stamp(under, tvb, header) end
  if tokenwire.prefs.check_icrc then show_icrc(under, tvb, header) end
  local problem = number == 1 and capture.problem or flow and flow.problem
  if problem then
    local item = under:add(field.problem, problem)
    item:set_generated()
    item:add_proto_expert_info(problem_expert, problem)
  end
end

function tokenwire.dissector(tvb, pinfo, tree)
  local found = transport_header()
  if not found then return end
  local header = parse(tvb, pinfo, found.offset)
  if not header then return end
  local cts = clear_to_send(tvb, header)
  local kind = kind_of(header, cts)
  if not pinfo.visited then study(tvb, pinfo, header, kind, cts) end

  local note = capture.notes[pinfo.number]
  visible = tree.visible
  if myself == nil then
    local known, dissector = pcall(Dissector.get, "tokenwire")
    myself = known and dissector or false
  end
  if visible or note or tokenwire.prefs.check_icrc or not myself or tree:referenced(myself) then
    show(tvb, pinfo, tree, header, kind, cts)
  end
  local mark = INFO[kind] or note and note.mark
  if mark and tokenwire.prefs.mark_info then pinfo.cols.info:prepend(mark) end
end

local opened -- the last trace: files of one are opened one after the other

function tokenwire.init()
  new_capture()
  local folder = tokenwire.prefs.trace
  if folder == "" then folder = trace_beside_capture() end
  if not folder then return end
  local read, trace = pcall(Trace.open, folder, opened)
  if read then
    opened, capture.trace, capture.epoch = trace, trace, trace.manifest.epoch_ns
  else
    capture.problem = tostring(trace)
  end
end

new_capture()
register_postdissector(tokenwire)
