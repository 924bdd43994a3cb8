import { execFile, execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeCliFolder, type CliFolder } from '../support/cli-config.ts';
import { callCli, jsonLines, startCli, type RunningCli } from '../support/run-cli.ts';

const part = /^## The API on your machine\n([^]*?)^## /m.exec(readFileSync('README.md', 'utf8'))?.[1] ?? '';
const blocks = [...part.matchAll(/^```sh\n([^]*?)^```$/gm)].map(([, text = '']) => text);
const [serve = '', ...others] = blocks;
/** Those that talk to the API with curl, and those that name commands of this program. */
const session = others.filter((text) => !text.startsWith('npx '));
const commands = others
  .flatMap((text) => text.split('\n'))
  .flatMap((line) => /^npx connector-sync (.+)$/.exec(line)?.[1] ?? []);

const missing = ['bash', 'curl'].filter((tool) => !isThere(tool));

describe.skipIf(missing.length > 0)(
  `the session of the README (${missing.join(', ') || 'bash, curl'})`,
  () => {
    let folder: CliFolder;
    let running: RunningCli;
    let steps: readonly string[];

    beforeAll(async () => {
      folder = await makeCliFolder();
      const [, id = '', secret = ''] = /CLIENT_ID=(\S+) CONNECTOR_SYNC_CLIENT_SECRET=(\S+)/.exec(serve) ?? [];
      const env = { CONNECTOR_SYNC_CLIENT_ID: id, CONNECTOR_SYNC_CLIENT_SECRET: secret };
      const args = ['serve', '--port', '0', '--size', 'tiny', '--json'];
      running = startCli(args, { cwd: folder.path, env });
      await running.until('"url"');
      const { url } = JSON.parse(running.output().stdout) as { url: string };
      steps = await runSession(url);
    }, 120_000);
    afterAll(async () => {
      running.child.kill('SIGTERM');
      await running.result;
      await folder[Symbol.asyncDispose]();
    });

    const runSession = async (url: string): Promise<readonly string[]> => {
      const script = session.map((text) => `${text}\necho '@@'\n`).join('');
      const local = script.replace('http://127.0.0.1:8787', url);
      expect(local).toContain(url);
      const { stdout } = await promisify(execFile)('bash', ['-eu', '-c', local], {
        cwd: folder.path,
        timeout: 100_000,
      });
      return stdout.split('@@\n').slice(0, -1);
    };
    const answers = (step: number): readonly unknown[] =>
      (steps[step] ?? '')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as unknown);

    it('gets a token and finds the type of a connector', () => {
      expect(steps).toHaveLength(5);
      expect(answers(0)).toEqual([]);
      expect(answers(1)).toMatchObject([{ definitions: [{ name: 'Document library' }] }]);
    });

    it('is refused a search while the store is filled, and lists and gets meanwhile', () => {
      const [refused, listed, got] = answers(2);
      expect(refused).toMatchObject({ errors: [{ error_code: 'context_store_not_ready' }] });
      const { result } = listed as { result: readonly object[] };
      expect(result).toHaveLength(2);
      expect(listed).toMatchObject({ status: 'success', connector_metadata: { has_next_page: true } });
      expect(got).toMatchObject({ status: 'success', result: result[0] });
    });

    it('searches once the store is ready', () => {
      const [found] = answers(3) as { result: { data: readonly { word_count: number }[] } }[];
      const counts = found?.result.data.map(({ word_count }) => word_count) ?? [];
      expect(counts).toHaveLength(3);
      expect(counts).toEqual(counts.toSorted((left, right) => right - left));
      expect(found).toMatchObject({ result: { meta: { has_more: true } } });
    });

    it('downloads a file with something in it, and deletes the connector', () => {
      expect(statSync(join(folder.path, 'attachment.bin')).size).toBeGreaterThan(0);
      expect(answers(4)).toMatchObject([{ job_id: expect.any(String) as string }]);
    });

    it('leaves no credential in the folder of the service, nor in what it printed', () => {
      const { stdout, stderr } = running.output();
      expect(stdout + stderr).not.toContain('any text will do');
      const holding = readdirSync(folder.path, { recursive: true, encoding: 'utf8' })
        .map((name) => join(folder.path, name))
        .filter(
          (file) => statSync(file).isFile() && readFileSync(file, 'latin1').includes('any text will do'),
        );
      expect(holding).toEqual([]);
    });
  },
);

describe('the commands of the README for the API', () => {
  it('are five', () => {
    expect(commands).toHaveLength(5);
  });

  it.each(commands)('are understood by the program: %s', async (text) => {
    await using folder = await makeCliFolder();
    const words = [...text.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
    const result = await callCli([...words, '--json'], { cwd: folder.path });
    // Understood: all that is missing is the config.
    expect(jsonLines(result)).toMatchObject([{ error: { code: 'CONFIG_INVALID' } }]);
  });
});

function isThere(tool: string): boolean {
  try {
    execFileSync('sh', ['-c', 'command -v "$1"', 'sh', tool], { stdio: 'ignore' });
    return true;
  } catch {
    return false; // Not found: the title says what is missing.
  }
}
