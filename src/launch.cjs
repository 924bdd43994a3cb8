#!/usr/bin/env node
'use strict';
// What npm links as connector-sync. It says in one sentence what is missing, so it must be read by every Node.js that there is:
// no syntax here that came after Node.js 12.
var path = require('path');
var fs = require('fs');

var needed = require('../package.json').engines.node.replace('>=', '');
var main = path.join(__dirname, '..', 'dist', 'main.js');

function stop(message) {
  process.stderr.write(message + '\n');
  process.exit(2);
}

function isOlder(version, than) {
  var have = version.replace('v', '').split('.').map(Number);
  var want = than.split('.').map(Number);
  for (var at = 0; at < want.length; at += 1) {
    if (have[at] !== want[at]) return have[at] < want[at];
  }
  return false;
}

function isInstalled(name) {
  try {
    return require.resolve(name) !== '';
  } catch (error) {
    return error.code !== 'MODULE_NOT_FOUND';
  }
}

if (isOlder(process.version, needed)) {
  stop(
    'connector-sync needs Node.js ' +
      needed +
      ' or later; this is ' +
      process.version +
      ' (' +
      process.execPath +
      '). Install a later one, for example from https://nodejs.org.',
  );
} else if (!fs.existsSync(main)) {
  stop('connector-sync is not built yet. Run "npm run build" in ' + path.join(__dirname, '..') + ' first.');
} else if (!isInstalled('better-sqlite3/package.json')) {
  stop(
    'connector-sync needs better-sqlite3, which npm did not install: it leaves it out where it cannot be compiled ' +
      'and with --omit=optional. Install a C++ compiler, make and Python 3 (Debian: apt-get install g++ make python3), ' +
      'or use Node.js 22.14 or later, which needs none of them; then install connector-sync again.',
  );
} else {
  void import('../dist/main.js');
}
