import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { ConnectorName } from '../../../src/core/names.ts';
import { loadSettings } from '../../../src/settings/load-settings.ts';

/** Settings of two connectors and a target, with these lines below `notify`. No service is behind them. */
export function notifySettings(
  notify: readonly string[],
  { allow = [] }: { readonly allow?: readonly string[] } = {},
) {
  const folder = mkdtempSync(join(tmpdir(), 'notify-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'sync.yaml');
  writeFileSync(
    file,
    `api: { baseUrl: "http://127.0.0.1:9", clientId: local, clientSecret: the-secret-of-the-api }
sinks: { main: { type: sqlite, path: ./main.db, durability: normal } }
connectors:
  news: { definition: email-marketing, id: c-news, sink: main, freshWithin: 1h }
  wiki: { definition: workspace-notes, id: c-wiki, sink: main }
publish:
  lake: { type: files, directory: ./lake, connectors: [news] }
allowNotifyHosts: ${JSON.stringify(allow)}
notify:
${notify.map((line) => `  ${line}\n`).join('')}`,
  );
  const settings = loadSettings({ file, env: {} });
  const news = settings.connectors.get('news' as ConnectorName);
  const lake = settings.publish.get('lake');
  if (news === undefined || lake === undefined) throw new Error('the config lacks what it names');
  return { folder, file, settings, news, lake };
}
