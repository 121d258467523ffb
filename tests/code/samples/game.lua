local json = require("json")

local Game = {}
Game.VERSION = 1

-- Starts a game.
function Game.new(players)
  local self = setmetatable({}, Game)
  self.players = players
  return self
end

function Game:play(round)
  for index, player in ipairs(self.players) do
    player:move(index)
  end
  self.score = json.decode(round)
end

local function helper(x)
  return Game.new(x)
end

Game.stop = function(reason)
  print(reason)
end

debugging = false

return Game
