import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { file, fileReply, openFileWorld, type FileWorld } from '../support/file-world.ts';
import { type Reply, apiError } from '../support/hostile/replies.ts';
import { callCli, jsonLines, type CliResult } from '../support/run-cli.ts';

let world: FileWorld;
beforeEach(async () => {
  world = await openFileWorld();
  writeFileSync(
    join(world.folder, 'sync.yaml'),
    `api: { baseUrl: "${world.server.baseUrl}", clientId: me, clientSecret: "\${SECRET}" }
sinks: { main: { type: sqlite, path: ./main.db, durability: normal } }
connectors:
  library:
    definition: document-library
    id: c1
    sink: main
    rateLimit: { requestsPerSecond: 1000 }
    downloads: { directory: ./files }
`,
  );
});
afterEach(() => world[Symbol.asyncDispose]());

const cli = (...args: readonly string[]): Promise<CliResult> =>
  callCli([...args, '--config', 'sync.yaml'], { cwd: world.folder, env: { SECRET: 'hush-hush' } });
const download = (id: string, ...more: readonly string[]): Promise<CliResult> =>
  cli('download', 'library/attachments', '--param', `attachment_id=${id}`, ...more);
/** Some of the bytes it announces, then the end of the connection. */
const cutInText: Reply = ({ request, response }) => {
  response.writeHead(200, { 'content-type': 'text/plain', 'content-length': '1000' });
  response.write('half of it', () => request.socket.destroy());
};
const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

describe('download', () => {
  it('writes one file under its own name, and says its length and hash', async () => {
    world.files.set('a1', file('one', { name: '../évil\u202e.txt' }));
    expect(await download('a1')).toEqual({
      code: 0,
      stdout: `${join(world.folder, 'évil.txt')}  3 bytes  sha256 ${sha256('one')}\n`,
      stderr: '',
    });
    expect(readFileSync(join(world.folder, 'évil.txt'), 'utf8')).toBe('one');
    expect(statSync(join(world.folder, 'évil.txt')).mode & 0o777).toBe(0o600);
    expect(readdirSync(world.folder).filter((name) => name.endsWith('.part'))).toEqual([]);
  });

  it('never replaces a file without --force, and sends no call then', async () => {
    world.files.set('a1', file('new'));
    const place = join(world.folder, 'here.txt');
    writeFileSync(place, 'old');
    const refused = await download('a1', '--output', 'here.txt');
    expect(refused).toMatchObject({ code: 2, stdout: '' });
    expect(refused.stderr).toContain('already exists; not overwritten');
    expect(world.asked()).toEqual([]);
    expect(readFileSync(place, 'utf8')).toBe('old');
    expect(jsonLines(await download('a1', '--output', 'here.txt', '--force', '--json'))).toEqual([
      { name: 'notes.txt', contentType: 'text/plain', file: place, bytes: 3, sha256: sha256('new') },
    ]);
    expect(readFileSync(place, 'utf8')).toBe('new');
    const unnamed = await download('a1', '--force');
    expect(unnamed).toMatchObject({ code: 2 });
    expect(unnamed.stderr).toContain('--force needs --output');
    expect(world.asked()).toEqual(['a1']);
    symlinkSync(place, join(world.folder, 'link.txt'));
    expect(await download('a1', '--output', 'link.txt', '--force')).toMatchObject({ code: 2 });
  });

  it('does not replace a file that was created during the download', async () => {
    const place = join(world.folder, 'here.txt');
    world.files.set(
      'a1',
      file('new', {
        reply: () => (exchange) => {
          writeFileSync(place, 'theirs');
          return fileReply(Buffer.from('new'), 'x')(exchange);
        },
      }),
    );
    expect(await download('a1', '--output', 'here.txt')).toMatchObject({ code: 2 });
    expect(readFileSync(place, 'utf8')).toBe('theirs');
    expect(readdirSync(world.folder).filter((name) => name.endsWith('.part'))).toEqual([]);
  });

  it('streams to standard output, where what was cut is not tried again', async () => {
    world.files.set('a1', file('to the pipe'));
    expect(await download('a1', '--output', '-')).toMatchObject({
      code: 0,
      stdout: 'to the pipe',
      stderr: expect.stringContaining(sha256('to the pipe')) as string,
    });
    world.files.set('a2', file('cut', { reply: () => cutInText }));
    const cut = await download('a2', '--output', '-');
    expect(cut.code).toBe(1);
    expect(cut.stderr).toContain('were already written to standard output');
    expect(world.asked()).toEqual(['a1', 'a2', 'a2']);
  });

  it('says what is wrong with what was asked', async () => {
    world.files.set('gone', file('x', { reply: () => apiError(404, 'no such attachment') }));
    expect((await download('gone')).stderr).toContain('was answered with 404');
    world.files.set('big', file('much'));
    const tooBig = await download('big', '--max-bytes', '3');
    expect(tooBig).toMatchObject({ code: 1 });
    expect(tooBig.stderr).toContain('at most 3 bytes');
    expect(await download('big', '--max-bytes', 'x')).toMatchObject({ code: 2 });
    expect((await cli('download', 'library/folders')).stderr).toContain('not download');
    expect((await cli('download', 'library/attachments')).stderr).toContain('attachment_id: is missing');
    expect((await download('big', '--output', 'no/such/folder/x')).stderr).toContain('cannot be written');
  });
});

describe('a sync of a connector with downloads', () => {
  it('stores the files, and says so in its table, in status and to a script', async () => {
    world.files.set('a1', file('one')).set('a2', file('two', { reply: () => apiError(404, 'none') }));
    const sync = await cli('sync');
    expect(sync.code).toBe(3);
    expect(sync.stdout).toContain('attachments: 1 file stored (0 KiB), 1 failed');
    expect(sync.stdout).toContain('! attachments {"attachment_id":"a2"}: NOT_FOUND');
    const status = await cli('status');
    expect(status.stdout).toContain('attachments: 1 file (0 KiB), 1 to be fetched, 1 of them failed');
    expect(status.stdout).toContain('! file of attachments {"attachment_id":"a2"}: NOT_FOUND');
    const [shown] = jsonLines(await cli('status', '--json'));
    expect(shown).toMatchObject({
      connectors: [{ fileFailures: [{ entity: 'attachments', failure: { code: 'NOT_FOUND' } }] }],
    });
    expect(Object.values(world.stored())).toEqual(['one']);
  });
});
