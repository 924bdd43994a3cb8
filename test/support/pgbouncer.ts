import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { freePort } from './redis.ts';

/** The program, or null where Debian package pgbouncer is missing. */
export function findPgbouncer(): string | null {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin'];
  return folders.map((folder) => join(folder, 'pgbouncer')).find((file) => existsSync(file)) ?? null;
}

/** It refuses to run as root. */
const nobody = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : null;

/** A pooler in transaction mode in front of the server at this port of loopback, for user `sync`. */
export async function startPgbouncer(program: string, serverPort: number) {
  const folder = mkdtempSync(join(tmpdir(), 'connector-sync-pgbouncer-'));
  const port = await freePort();
  const file = join(folder, 'pgbouncer.ini');
  const settings = (pointedTo: number): readonly string[] => [
    '[databases]',
    `* = host=127.0.0.1 port=${pointedTo}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'pool_mode = transaction',
    'auth_type = trust',
    `auth_file = ${join(folder, 'users')}`,
  ];
  writeFileSync(file, settings(serverPort).join('\n'));
  writeFileSync(join(folder, 'users'), '"sync" ""\n');
  for (const name of ['', 'pgbouncer.ini', 'users']) {
    if (nobody !== null) chownSync(join(folder, name), nobody.uid, nobody.gid);
  }
  chmodSync(folder, 0o700);
  const child = spawn(program, [file], { ...nobody, cwd: folder, stdio: 'ignore' });
  const exited = once(child, 'exit');
  while (!(await isListening(port))) {
    if (child.exitCode !== null) throw new Error(`pgbouncer ended with ${child.exitCode}`);
    await pause(50);
  }
  return {
    port,
    /** Has clients talk to the server at this port from their next transaction on; they stay connected. */
    pointTo: (pointedTo: number) => {
      writeFileSync(file, settings(pointedTo).join('\n'));
      child.kill('SIGHUP');
    },
    stop: async () => {
      child.kill('SIGKILL');
      await exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
