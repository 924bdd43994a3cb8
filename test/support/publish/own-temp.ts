import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished, vi } from 'vitest';

/** A folder for temporary files until the test ends: in that of all, other processes stage files too. */
export function useOwnTemp(): void {
  const folder = mkdtempSync(join(tmpdir(), 'own-temp-'));
  vi.stubEnv('TMPDIR', folder);
  onTestFinished(() => {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true, force: true });
  });
}
