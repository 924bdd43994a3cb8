import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { expect, it } from 'vitest';
import { takeLock, type Lock } from '../../../src/sinks/ledger/lock.ts';

const dist = new URL('../../../dist/', import.meta.url);

it('ends the sync of a service that was killed, and frees the store for the next one', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'orphan-'));
  const service = spawn(process.execPath, ['--input-type=module', '--eval', serviceScript(folder)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    // The sync holds the store and waits for a page that never comes.
    await once(createInterface({ input: service.stdout }), 'line');
    const lockFile = path.join(folder, 'stores', 'one.db.store.lock');
    expect(existsSync(lockFile)).toBe(true);
    expect(takeLock(lockFile)).toBeNull();
    service.kill('SIGKILL');
    await once(service, 'exit');
    const lock = await lockWhenFree(lockFile);
    lock.release();
  } finally {
    service.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
});

async function lockWhenFree(file: string): Promise<Lock> {
  for (;;) {
    const lock = takeLock(file);
    if (lock !== null) return lock;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

function serviceScript(folder: string): string {
  return `
    import { randomBytes } from 'node:crypto';
    import { systemClock } from '${dist.href}core/clock.js';
    import { builtInDefinitionsFolder, loadDefinitions } from '${dist.href}definitions/load-definitions.js';
    import { openContextStores } from '${dist.href}service/store/open-context-stores.js';
    const stores = openContextStores({
      folder: ${JSON.stringify(folder)}, clock: systemClock, refreshEveryMs: null,
      search: { deadlineMs: 1000, processes: 1 }, cursorKey: randomBytes(32),
    });
    const list = async () => { console.log('asked'); await new Promise(() => setInterval(() => {}, 1000)); };
    const definition = loadDefinitions([builtInDefinitionsFolder]).get('email-marketing');
    stores.keep({ connectorId: 'one', definition, provider: { list, get: list, download: list } });
  `;
}
