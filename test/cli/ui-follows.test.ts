import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { it } from '../support/it.ts';
import { startCli } from '../support/run-cli.ts';

const config = (name: string, watch: boolean): string => `watch: ${watch}
sinks: { main: { type: sqlite, path: ./main.db } }
connectors:
  ${name}: { definition: workspace-notes, credentials: { token: ntn_1 }, sink: main }
`;

it('shows a changed config without a restart, and says on every page that one was refused', async ({
  folder,
}) => {
  const file = join(folder, 'c.yaml');
  writeFileSync(file, config('wiki', false));
  const ui = startCli(['ui', '--http', '0', '--config', 'c.yaml'], { cwd: folder });
  await ui.until('Ctrl-C stops.');
  const url = /http:\S+/.exec(ui.output().stdout)?.[0] ?? '';
  const page = async (): Promise<string> => await (await fetch(url)).text();
  expect(await page()).toContain('wiki');
  writeFileSync(file, config('notes', true));
  ui.child.kill('SIGHUP');
  await expect.poll(page, { timeout: 10_000 }).toContain('notes');
  expect(await page()).not.toContain('wiki');
  // From here on it looks by itself.
  writeFileSync(file, config('notes', true).replace('sink: main', 'sink: mian'));
  await expect.poll(page, { timeout: 20_000 }).toContain('cannot be used');
  const refused = await page();
  expect(refused).toContain('stays in force');
  expect(refused).toContain('mian');
  expect(refused).toContain('notes');
  writeFileSync(file, config('journal', true));
  await expect.poll(page, { timeout: 20_000 }).toContain('journal');
  expect(await page()).not.toContain('cannot be used');
  ui.child.kill('SIGTERM');
  await ui.result;
}, 60_000);
