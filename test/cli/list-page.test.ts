import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { knownOverviews } from '../../src/cli/list-page.ts';
import type { ConnectorSettings } from '../../src/settings/settings.ts';

function connectorIn(sink: string, path: string): ConnectorSettings {
  return { name: `of-${sink}`, sink: { name: sink, type: 'sqlite', path } } as unknown as ConnectorSettings;
}

it('leaves out only the sink that fails, whatever it fails with', async () => {
  const missing = join(mkdtempSync(join(tmpdir(), 'list-page-')), 'sink.db');
  // A path that no system takes: Node.js refuses it with an error of its own.
  const connectors = [connectorIn('broken', `${missing}\u0000`), connectorIn('empty', missing)];
  expect([...(await knownOverviews(connectors)).keys()]).toEqual(['empty']);
});
