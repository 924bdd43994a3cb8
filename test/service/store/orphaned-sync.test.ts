import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { expect } from 'vitest';
import { it } from '../../support/it.ts';
import { takeLock, type Lock } from '../../../src/sql/sqlite/lock.ts';
import { testProgram } from '../../support/ensure-built.ts';

const program = testProgram('service/store/syncing-service.mjs');

it('ends the sync of a service that was killed, and frees the store for the next one', async ({ folder }) => {
  const service = spawn(process.execPath, [program, folder], {
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
  }
});

async function lockWhenFree(file: string): Promise<Lock> {
  for (;;) {
    const lock = takeLock(file);
    if (lock !== null) return lock;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
