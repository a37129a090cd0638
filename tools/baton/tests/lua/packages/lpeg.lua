-- LPeg: an arithmetic grammar, captures that call Lua, and the `re` module.
local lpeg = require "lpeg"
local re = require "re"
local P, R, S, V, C, Ct, Cc, Cg, Cf, Cmt =
  lpeg.P, lpeg.R, lpeg.S, lpeg.V, lpeg.C, lpeg.Ct, lpeg.Cc, lpeg.Cg, lpeg.Cf, lpeg.Cmt

local apply = {
  ["+"] = function(a, b) return a + b end,
  ["-"] = function(a, b) return a - b end,
  ["*"] = function(a, b) return a * b end,
  ["/"] = function(a, b) return a // b end,
}

local function calculator()
  local space = S " \n" ^ 0
  local number = R "09" ^ 1 / math.tointeger * space
  local function operator(set) return C(S(set)) * space end
  local function fold(a, op, b) return apply[op](a, b) end
  return space * P {
    "sum",
    sum = Cf(V "product" * Cg(operator "+-" * V "product") ^ 0, fold),
    product = Cf(V "atom" * Cg(operator "*/" * V "atom") ^ 0, fold),
    atom = number + P "(" * space * V "sum" * P ")" * space,
  } * -1
end

local function csv(record)
  local quoted = '"' * lpeg.Cs(((P(1) - '"') + P '""' / '"') ^ 0) * '"'
  local plain = C((1 - S ',\n"') ^ 0)
  local field = quoted + plain
  return Ct(field * ("," * field) ^ 0):match(record)
end

return function(t)
  local calculate = calculator()
  t.say(
    calculate:match "1 + 2 * (3 - 4) * 5",
    calculate:match("(" .. ("1+"):rep(100) .. "1)"),
    calculate:match "1 +"
  )
  t.say(table.concat(csv 'a,"b,""c""",,d', "|"))
  local balanced = P { "(" * ((1 - S "()") + V(1)) ^ 0 * ")" }
  t.say(balanced:match("(a(b)c)(d)"), balanced:match "(()")
  local seen = {}
  local longest = Cmt(C(R "az" ^ 1), function(_, at, word)
    seen[#seen + 1] = word
    return #word > 2 and at, word:upper()
  end)
  t.say(table.concat(Ct((longest + 1) ^ 0):match(("ab abc "):rep(50)), ""):sub(1, 12), #seen)
  t.say(re.match("key = 12 ; other = 7", "{| ({:k: %a+ :} ' = ' {:v: %d+ :} ' ; '?)+ |}").k)
  t.say(re.gsub("hello world", "[aeiou]", "*"), re.find("the number 423", "[0-9]+"))
  t.say(pcall(P, { V "none" }))
  t.say(pcall(function() return P { "a", a = V "a" } end))
  t.say(pcall(lpeg.match, Cmt(1, function() error "from a capture" end), "x"))
  t.say(lpeg.type(calculate), lpeg.type "text", (Cc(1, 2) * C "x"):match "x")
end
