-- Invoices for a few customers, each computed by a process of its own. One of them is wrong. The
-- page "Debugging" of the book finds the fault: docs/book/src/debugging.md.

local process = require "baton.process"

local STANDARD = { discount = 0, shipping = 5 }

local customers = {
  { name = "Ada", items = { 30, 12 } },
  { name = "Bob", items = { 80, 40, 60 }, terms = { discount = 10, shipping = 0 } },
  { name = "Cleo", items = { 100, 50 }, regular = true },
  { name = "Dan", items = { 20 } },
}

-- Regular customers get 20 % off.
local function terms_of(customer)
  local terms = customer.terms or STANDARD
  if customer.regular then
    terms.discount = 20
  end
  return terms
end

local function total_of(customer)
  local terms = terms_of(customer)
  local sum = 0
  for _, price in ipairs(customer.items) do
    sum = sum + price
  end
  return sum * (100 - terms.discount) / 100 + terms.shipping
end

local clerks = {}
for i, customer in ipairs(customers) do
  clerks[i] = process.spawn({ name = customer.name }, total_of, customer)
end

for i, customer in ipairs(customers) do
  local _, total = clerks[i]:join()
  print(("%-5s %6.2f"):format(customer.name, total))
end
