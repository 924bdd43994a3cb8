import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { blocksOf, unrunCommands } from './document-commands.ts';
import { freePort } from './redis.ts';

export interface DocumentRun extends Disposable {
  /** The folder the commands ran in, empty before. */
  readonly folder: string;
  readonly code: number | null;
  /** What each block wrote to standard output. */
  readonly steps: readonly string[];
  readonly stderr: string;
}

const stepEnd = '@@ end of a block @@';
const startTimeoutSeconds = 60;

/** Runs every `sh` block of a document with bash, in order, in a folder that git ignores what it ignores in a clone. */
export async function runDocument(document: string): Promise<DocumentRun> {
  const world = mkdtempSync(join(tmpdir(), 'connector-sync-doc-'));
  const folder = join(world, 'clone');
  mkdirSync(folder);
  copyFileSync('.gitignore', join(folder, '.gitignore'));
  execFileSync('git', ['init', '-q'], { cwd: folder });
  execFileSync('git', ['add', '.'], { cwd: folder });
  const shell = spawn('bash', ['-c', await scriptOf(document)], {
    cwd: folder,
    env: { PATH: [programFolder(world), process.env['PATH']].join(delimiter), HOME: world },
    stdio: ['ignore', 'pipe', 'pipe'],
    // A group of its own, so that what the document left running ends with it.
    detached: true,
  });
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    shell[name].setEncoding('utf8').on('data', (text: string) => (output[name] += text));
  }
  const [code] = (await once(shell, 'close')) as [number | null];
  return {
    folder,
    code,
    steps: output.stdout.split(`${stepEnd}\n`).slice(0, -1),
    stderr: output.stderr,
    [Symbol.dispose]: () => rmSync(world, { recursive: true, force: true }),
  };
}

/**
 * The blocks as they stand, with three changes: a line that is not run is replaced, the API's usual port is a free one,
 * and after a command in the background the next one waits until that port answers, as a person would.
 */
async function scriptOf(document: string): Promise<string> {
  const port = String(await freePort());
  const awaitPort = `for try in $(seq ${startTimeoutSeconds * 10}); do (exec 3<>/dev/tcp/127.0.0.1/${port}) 2> /dev/null && break; sleep 0.1; done`;
  const lines = blocksOf(document, 'sh').flatMap((block) => [
    ...block.split('\n').flatMap((line) => {
      const unrun = unrunCommands.find((one) => line.replace(/ +#.*$/, '') === one.line);
      const text = unrun === undefined ? line : (unrun.instead ?? '');
      const served = text
        .replaceAll('127.0.0.1:8787', `127.0.0.1:${port}`)
        .replaceAll('connector-sync serve', `connector-sync serve --port ${port}`);
      return / &( +#.*)?$/.test(text) ? [served, awaitPort] : [served];
    }),
    `echo '${stepEnd}'`,
  ]);
  return ['set -eu', "trap 'kill $(jobs -p) 2> /dev/null || true; wait' EXIT", ...lines].join('\n');
}

/** Holds the built program as an installation links it. */
function programFolder(world: string): string {
  const { bin } = JSON.parse(readFileSync('package.json', 'utf8')) as { bin: { 'connector-sync': string } };
  const folder = join(world, 'bin');
  mkdirSync(folder);
  symlinkSync(resolve(bin['connector-sync']), join(folder, 'connector-sync'));
  return [folder, dirname(process.execPath)].join(delimiter);
}
