// npm run test:image: builds the image that the Dockerfile describes, without a registry of images, and tries what is
// in it. Needs root and Debian's buildah, debootstrap and redis-server. The base image that FROM names is made of
// Debian's packages, and of the Node.js and npm of the npm registry. Nothing is left behind, but in the folder that
// KEEP names: the base system, for next time.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';

const checkout = path.resolve(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), '..');
const base =
  /^FROM (\S+) AS build$/m.exec(readFileSync(path.join(checkout, 'Dockerfile'), 'utf8'))?.[1] ?? '';
const major = /^node:(\d+)-slim$/.exec(base)?.[1];
const certificates = '/etc/ssl/certs/ca-certificates.crt';
const port = 9400;

const missing = ['buildah', 'debootstrap', 'redis-server'].filter(
  (name) => spawnSync('which', [name]).status !== 0,
);
if (major === undefined) stop(`Expected the Dockerfile to begin from node:<major>-slim, got ${base}.`);
if (missing.length > 0) {
  stop(`Not found: ${missing.join(', ')}. On Debian: apt-get install buildah debootstrap redis-server.`);
}
if (process.getuid?.() !== 0) stop('Expected to run as root: a system is unpacked and entered with chroot.');

const folder = mkdtempSync(path.join(tmpdir(), 'image-'));
const storage = ['--root', `${folder}/storage`, '--runroot', `${folder}/run`, '--storage-driver', 'vfs'];
try {
  makeBase();
  // Namespaces of their own are not to be had everywhere; a chroot is.
  const build = ['bud', '--isolation', 'chroot', '--pull-never', '--format', 'docker'];
  run('buildah', [...storage, ...build, '-t', 'connector-sync', checkout]);
  await tryImage();
  console.log('The image was built, and does what it says.');
} finally {
  // A mount that is left would be emptied, too.
  const mounts = readFileSync('/proc/mounts', 'utf8')
    .split('\n')
    .filter((line) => line.includes(`${folder}/`));
  if (mounts.length === 0) rmSync(folder, { recursive: true, force: true });
  else console.error(`Left behind, because something is mounted there: ${folder}\n${mounts.join('\n')}`);
}

/**
 * Debian with a user `node`, Node.js and npm, as the image of that name has them. It trusts what this machine trusts.
 */
function makeBase() {
  const kept = process.env['KEEP'];
  const tarball = kept === undefined ? `${folder}/debian.tar` : path.join(path.resolve(kept), 'debian.tar');
  const root = `${folder}/root`;
  if (!existsSync(tarball)) {
    mkdirSync(path.dirname(tarball), { recursive: true });
    run('debootstrap', [
      '--variant=minbase',
      '--include=ca-certificates',
      'bookworm',
      root,
      'http://deb.debian.org/debian',
    ]);
    run('tar', [
      '-C',
      root,
      '-cf',
      tarball,
      '--exclude=./proc/*',
      '--exclude=./sys/*',
      '--exclude=./dev/*',
      '.',
    ]);
  }
  const added = `${folder}/added`;
  const modules = `${added}/usr/local/lib/node_modules`;
  const node = `node-${process.platform}-${process.arch}`;
  run('npm', ['install', '--no-save', '--prefix', `${folder}/npm`, `${node}@${major}`, 'npm@11']);
  mkdirSync(`${added}/usr/local/bin`, { recursive: true });
  cpSync(`${folder}/npm/node_modules/${node}/bin/node`, `${added}/usr/local/bin/node`);
  cpSync(`${folder}/npm/node_modules/npm`, `${modules}/npm`, { recursive: true, verbatimSymlinks: true });
  if (existsSync(certificates)) cpSync(certificates, `${added}${certificates}`);
  cpSync(tarball, `${folder}/base/debian.tar`);
  // Links of npm stay as they are.
  cpSync(added, `${folder}/base/added`, { recursive: true, verbatimSymlinks: true });
  const lines = [
    'FROM scratch',
    'ADD debian.tar /',
    'COPY added /',
    `ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin NODE_EXTRA_CA_CERTS=${certificates}`,
    'RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm && useradd -m -u 1000 -s /bin/bash node',
  ];
  writeFileSync(`${folder}/base/Dockerfile`, `${lines.join('\n')}\n`);
  const name = `docker.io/library/${base}`;
  run('buildah', [...storage, 'bud', '--isolation', 'chroot', '--pull-never', '-t', name, `${folder}/base`]);
}

async function tryImage() {
  const image = JSON.parse(read('buildah', [...storage, 'inspect', '--type', 'image', 'connector-sync']))
    .Docker.config;
  const container = read('buildah', [...storage, 'from', '--pull-never', 'connector-sync']).trim();
  const world = path.join(folder, 'world');
  mkdirSync(world, { mode: 0o755 });
  // Without a namespace of its own for processes, tini is not the first one.
  const inside = ['--user', image.User, '--volume', `${world}:/config`, '--env', 'TINI_SUBREAPER=1'];
  const command = (args, more = []) => [
    ...storage,
    'run',
    '--isolation',
    'chroot',
    ...inside,
    ...more,
    container,
    '--',
    ...args,
  ];
  const program = (args, more) => command([...image.Entrypoint, ...args], more);

  const { version } = JSON.parse(readFileSync(path.join(checkout, 'package.json'), 'utf8'));
  expect('--version', read('buildah', program(['--version'])).trim(), version);
  expect('the name in PATH', read('buildah', command(['connector-sync', '--version'])).trim(), version);
  expect('the user', read('buildah', command(['id', '-u'])).trim(), '1000');
  expect('who owns /data', read('buildah', command(['stat', '-c', '%U %a', '/data'])).trim(), 'node 700');
  expect('writing beside /data', spawnSync('buildah', command(['touch', '/app/x'])).status === 0, false);
  console.log(read('buildah', command(['du', '-sh', '/app/dist', '/app/node_modules'])));

  const [apiPort, redisPort] = [await freePort(), await freePort()];
  const secret = 'secret-of-the-image-test-32-long';
  const credentials = [
    '--env',
    'CONNECTOR_SYNC_CLIENT_ID=image-test',
    '--env',
    `CONNECTOR_SYNC_CLIENT_SECRET=${secret}`,
  ];
  const started = [];
  const start = async (file, args, text) => {
    const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    const output = gather(child);
    started.push(child);
    await output.until(text);
    return { child, output };
  };
  try {
    const redis = [
      '--port',
      String(redisPort),
      '--bind',
      '127.0.0.1',
      '--save',
      '',
      '--maxmemory-policy',
      'noeviction',
    ];
    await start('redis-server', redis, 'Ready to accept connections');
    const serve = [
      'serve',
      '--port',
      String(apiPort),
      '--size',
      'tiny',
      '--no-index',
      '--data',
      '/data/service',
    ];
    await start('buildah', program(serve, credentials), `127.0.0.1:${apiPort}`);
    writeFileSync(path.join(world, 'connector-sync.yaml'), configText(apiPort, redisPort, secret), {
      mode: 0o644,
    });
    run('buildah', program(['check']));
    const worker = await start('buildah', program(image.Cmd), 'ready for scheduled runs');
    run('buildah', command(image.Healthcheck.Test.slice(1)));
    expect('/readyz', (await fetch(`http://127.0.0.1:${port}/readyz`)).status, 200);
    await worker.output.until('"outcome":"ok"');
    console.log(read('buildah', program(['status'])));
    expect('exit code of the worker after SIGTERM', await endInside(worker.child), 0);
  } finally {
    for (const child of started.toReversed()) await endInside(child);
  }
}

function configText(apiPort, redisPort, secret) {
  return [
    `api: { baseUrl: "http://127.0.0.1:${apiPort}", clientId: image-test, clientSecret: ${secret} }`,
    `redis: { url: "redis://127.0.0.1:${redisPort}" }`,
    'sinks: { test: { type: sqlite, path: /data/test.db } }',
    'connectors:',
    '  news: { definition: email-marketing, id: sample-newsletter, sink: test, schedule: { cron: "*/5 * * * * *" } }',
    '',
  ].join('\n');
}

/** What a program writes; `until` resolves when it has written that text, and rejects when it ends without it. */
function gather(child) {
  let said = '';
  for (const output of [child.stdout, child.stderr]) {
    output.setEncoding('utf8').on('data', (text) => (said += text));
  }
  return {
    until: (text) =>
      new Promise((resolve, reject) => {
        const look = () => said.includes(text) && resolve();
        for (const output of [child.stdout, child.stderr]) output.on('data', look);
        child.once('close', (code) =>
          reject(new Error(`ended with ${code} before "${text}": ${said.slice(-2000)}`)),
        );
        look();
      }),
  };
}

/**
 * SIGTERM to the innermost process that a container's PID 1 would be: buildah itself kills what it runs. Resolves with
 * the exit code, which buildah hands on.
 */
async function endInside(child) {
  if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
  const closed = once(child, 'close');
  process.kill(initBelow(child.pid) ?? child.pid, 'SIGTERM');
  const [code] = await closed;
  return code;
}

/** buildah starts processes from any of its threads, and each thread has its own children. */
function initBelow(pid) {
  const children = readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
  );
  const inits = children.map((one) =>
    readFileSync(`/proc/${one}/comm`, 'utf8').trim() === 'tini' ? one : initBelow(one),
  );
  return inits.find((one) => one !== null) ?? null;
}

async function freePort() {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address();
  probe.close();
  await once(probe, 'close');
  return port;
}

function expect(what, got, wanted) {
  if (got !== wanted) throw new Error(`${what}: expected ${wanted}, got ${got}`);
  console.log(`${what}: ${got}`);
}

function run(command, args) {
  console.log(`$ ${command} ${args.filter((arg) => !storage.includes(arg)).join(' ')}`);
  const { status, error } = spawnSync(command, args, {
    cwd: folder,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  if (status !== 0) throw error ?? new Error(`${command} ended with ${status}; its last lines say why`);
}

function read(command, args) {
  return execFileSync(command, args, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
}

function stop(message) {
  console.error(message);
  process.exit(2);
}
