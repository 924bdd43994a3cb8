import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished, vi } from 'vitest';
import { Secret } from '../../../src/core/secret.ts';
import { openS3Store, type S3Place, type S3StoreOptions } from '../../../src/publish/s3-store.ts';
import type { ObjectStore } from '../../../src/publish/target.ts';
import { fakePlace, startFakeS3, type FakeS3 } from './fake-s3.ts';

/** Both closed when the test ends. */
export async function openFakeStore(
  options: Partial<S3StoreOptions> = {},
): Promise<{ readonly fake: FakeS3; readonly store: ObjectStore }> {
  const fake = await startFakeS3();
  onTestFinished(async () => await fake[Symbol.asyncDispose]());
  return { fake, store: await openStore(fakePlace(fake.endpoint), options) };
}

export async function openStore(place: S3Place, options: Partial<S3StoreOptions> = {}): Promise<ObjectStore> {
  const store = await openS3Store(place, { signal: new AbortController().signal, ...options });
  onTestFinished(async () => await store[Symbol.asyncDispose]());
  return store;
}

const { S3_TEST_ENDPOINT, S3_TEST_BUCKET, S3_TEST_REGION, S3_TEST_KEY, S3_TEST_SECRET } = process.env;

/**
 * A real bucket, below a prefix of its own: S3_TEST_BUCKET, and where they are needed S3_TEST_ENDPOINT, S3_TEST_REGION,
 * S3_TEST_KEY, S3_TEST_SECRET. Null without.
 */
export function realPlace(): S3Place | null {
  if (S3_TEST_BUCKET === undefined) return null;
  return {
    bucket: S3_TEST_BUCKET,
    prefix: `connector-sync-test/${randomUUID()}`,
    region: S3_TEST_REGION ?? null,
    endpoint: S3_TEST_ENDPOINT ?? null,
    credentials:
      S3_TEST_KEY === undefined || S3_TEST_SECRET === undefined
        ? null
        : { accessKeyId: S3_TEST_KEY, secretAccessKey: new Secret(S3_TEST_SECRET) },
  };
}

/** A folder for temporary files until the test ends: in that of all, other processes stage files too. */
export function useOwnTemp(): void {
  const folder = mkdtempSync(join(tmpdir(), 'own-temp-'));
  vi.stubEnv('TMPDIR', folder);
  onTestFinished(() => {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true, force: true });
  });
}
