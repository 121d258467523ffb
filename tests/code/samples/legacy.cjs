"use strict";
var util = require("util");
var inherits = require("util").inherits;

module.exports = function create(options) {
  return new Server(options);
};

// Makes servers.
function Server(options) {
  this.listen = function (port) {
    return util.format(port);
  };
}

exports.Server = Server;
exports.close = function (server) {
  server.listen(1);
};
exports.VERSION = "1.0";
require("./register");
