import { expect } from 'vitest';
import { it } from '../support/it.ts';
import { startCli } from '../support/run-cli.ts';

let folder: string;

it.beforeEach(({ folder: made }) => {
  folder = made;
});

it('demo --ui serves the pages of what it has stored until Ctrl-C, and then leaves no server behind', async () => {
  // No Redis answers there.
  const env = { REDIS_URL: 'redis://127.0.0.1:1' };
  const running = startCli(['demo', '--ui', '--directory', 'd'], { cwd: folder, env });
  await running.until('Ctrl-C stops.');
  const [, url = ''] = /: (http:\/\/127\.0\.0\.1:\d+)$/m.exec(running.output().stdout) ?? [];
  const page = await (await fetch(url)).text();
  expect(page).toContain('<a href="connectors/newsletter">newsletter</a>');
  expect(page).toContain('<a href="connectors/wiki">wiki</a>');
  running.child.kill('SIGINT');
  const { code, stdout, stderr } = await running.result;
  expect(code).toBe(0);
  expect(stdout).toContain('Next:\n');
  expect(stdout).not.toContain(' ui --config ');
  expect(stderr.trimEnd().split('\n').slice(-2)).toEqual([
    'Ctrl-C stops.',
    'Stopping. Ctrl-C again quits now.',
  ]);
  await expect(fetch(url)).rejects.toThrow('fetch failed');
}, 180_000);
