// Runs after `npm ci` and `npm install` in a checkout (`prepare` in package.json). The lockfile holds better-sqlite3
// 13, which brings its binaries; a Node.js that cannot load it (docs/internals/decisions/0002) gets version 12 in its
// place.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';

const version = '12.11.1';
const nodeApiOf13 = 10;

/** npm runs `prepare` at other occasions too. */
function isInstalled() {
  const folder = new URL('../node_modules/better-sqlite3/', import.meta.url);
  return (
    existsSync(new URL('build/Release/better_sqlite3.node', folder)) &&
    JSON.parse(readFileSync(new URL('package.json', folder), 'utf8')).version === version
  );
}

if (Number(process.versions.napi) < nodeApiOf13 && !isInstalled()) {
  console.error(
    `Node.js ${process.versions.node} needs better-sqlite3 12: installing ${version}. ` +
      'Where no binary can be downloaded it is compiled, which takes a minute or two.',
  );
  const npm = process.env.npm_execpath;
  const install = ['install', '--no-save', '--no-audit', '--no-fund', `better-sqlite3@${version}`];
  const { status } = npm
    ? spawnSync(process.execPath, [npm, ...install], { stdio: 'inherit' })
    : spawnSync('npm', install, { stdio: 'inherit', shell: process.platform === 'win32' });
  if (status !== 0) {
    console.error(
      `better-sqlite3 ${version} could not be installed. It needs a C++ compiler, make and Python 3 ` +
        '(Debian: apt-get install g++ make python3), or use Node.js 22.14 or later, which needs none of them.',
    );
    process.exitCode = 1;
  }
}
