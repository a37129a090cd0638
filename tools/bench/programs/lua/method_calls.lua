-- Objects: methods found through one and two metatables, fields, accessors.
local rounds = tonumber(arg[1]) or 1200000

local Account = {}
Account.__index = Account

function Account.new(owner, balance)
  return setmetatable({ owner = owner, balance = balance, moves = 0 }, Account)
end

function Account:deposit(amount)
  self.balance = self.balance + amount
  self.moves = self.moves + 1
end

function Account:limit()
  return 0
end

function Account:withdraw(amount)
  if self.balance - amount < self:limit() then
    return false
  end
  self.balance = self.balance - amount
  self.moves = self.moves + 1
  return true
end

local Credit = setmetatable({}, { __index = Account })
Credit.__index = Credit

function Credit.new(owner, balance, line)
  local account = setmetatable(Account.new(owner, balance), Credit)
  account.line = line
  return account
end

function Credit:limit()
  return -self.line
end

local plain, credit = Account.new("ada", 100), Credit.new("bob", 0, 500)
local refused = 0
for i = 1, rounds do
  plain:deposit(i % 13)
  credit:deposit(i % 5)
  if not plain:withdraw(i % 17) then
    refused = refused + 1
  end
  if not credit:withdraw(i % 7) then
    refused = refused + 1
  end
end
print(plain.balance, credit.balance, plain.moves, credit.moves, refused)
