import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import { revisingAccount } from '../../support/revising-account.ts';
import { createSampleAccount } from '../../../src/sample/sample-service.ts';
import type { SampleAccount, SampleSize } from '../../../src/sample/sample-account.ts';
import type { ProviderFile } from '../../../src/service/provider.ts';
import { sampleTruth } from '../../support/sample-truth.ts';
import { text } from '../../support/service/served-api.ts';

const options = { definitionName: 'document-library', seed: 7 };
const open = (size: SampleSize = 'small', revision = 0, seed = 7): SampleAccount =>
  createSampleAccount({ ...options, seed, size, revision });
const attachmentsOf = (account: SampleAccount): readonly JsonObject[] =>
  [...sampleTruth(account, 'attachments')].map(({ record }) => record);
const going = new AbortController().signal;

function fileOf(account: SampleAccount, id: JsonValue = null): ProviderFile {
  const file = account.file?.('attachments', { attachment_id: id }) ?? null;
  if (file === null) throw new Error(`no file ${text(id)}`);
  return file;
}

async function bytesOf(file: ProviderFile): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of file.read(going)) chunks.push(chunk);
  return Buffer.concat(chunks);
}

describe('the files of a document library', () => {
  it('have the name, type, size and checksum that their record gives', async () => {
    const account = open();
    for (const record of attachmentsOf(account)) {
      const file = fileOf(account, record['id']);
      const hash = createHash('sha256');
      let size = 0;
      for await (const chunk of file.read(going)) {
        hash.update(chunk);
        size += chunk.length;
        expect(chunk.length).toBeLessThanOrEqual(65_536);
      }
      expect({
        file_name: file.name,
        content_type: file.contentType,
        size,
        checksum: hash.digest('hex'),
      }).toEqual({
        file_name: record['file_name'],
        content_type: record['content_type'],
        size: record['size'],
        checksum: record['checksum'],
      });
      expect(file.size).toBe(size);
    }
  });

  it('begin and end as their type does, and texts are texts', async () => {
    const account = open();
    const met = new Set<string>();
    for (const record of attachmentsOf(account).slice(0, 60)) {
      const file = fileOf(account, record['id']);
      const bytes = await bytesOf(file);
      met.add(file.contentType);
      switch (file.contentType) {
        case 'application/pdf':
          expect(bytes.subarray(0, 5).toString()).toBe('%PDF-');
          expect(bytes.subarray(-6).toString()).toBe('%%EOF\n');
          break;
        case 'image/png':
          expect(bytes.subarray(0, 8).toString('hex')).toBe('89504e470d0a1a0a');
          expect(bytes.subarray(-8, -4).toString()).toBe('IEND');
          break;
        case 'application/zip':
          expect(bytes.subarray(0, 4).toString('latin1')).toBe('PK\u0003\u0004');
          break;
        case 'text/plain; charset=utf-8':
        case 'text/csv':
          expect(new TextDecoder('utf-8', { fatal: true }).decode(bytes)).toMatch(/\n$/);
      }
    }
    expect(met.size).toBe(6);
  });

  it('are the same for the same seed, others for another, and alike in no two attachments', async () => {
    const [first = {}, second = {}] = attachmentsOf(open('tiny'));
    const bytes = await bytesOf(fileOf(open('tiny'), first['id']));
    expect(await bytesOf(fileOf(open('tiny'), first['id']))).toEqual(bytes);
    const [other = {}] = attachmentsOf(open('tiny', 0, 8));
    expect(other['checksum']).not.toBe(first['checksum']);
    expect(second['checksum']).not.toBe(first['checksum']);
    const checksums = attachmentsOf(open()).map(({ checksum }) => checksum);
    expect(new Set(checksums).size).toBe(checksums.length);
  });

  it('are many small ones and one that is too large for memory', () => {
    const sizes = attachmentsOf(open()).map(({ size }) => Number(size));
    expect(sizes.filter((size) => size > 8 * 1024 * 1024)).toHaveLength(1);
    expect(sizes.filter((size) => size > 600_000)).toHaveLength(1);
    expect(Math.min(...sizes)).toBeGreaterThan(0);
    expect(sizes.length).toBeGreaterThan(100);
    expect(attachmentsOf(open('tiny')).length).toBeLessThan(12);
  });

  it('have names that no file system should be given as they are', () => {
    const names = attachmentsOf(open('tiny')).map(({ file_name }) => text(file_name));
    expect(names).toEqual(expect.arrayContaining(['../../etc/passwd', 'CON']));
    // oxlint-disable-next-line no-control-regex -- these are what a name is to hold
    expect(names.some((name) => /[\r\n\u0000]/.test(name))).toBe(true);
    const all = attachmentsOf(open()).map(({ file_name }) => text(file_name));
    expect(new Set(all).size).toBeLessThan(all.length);
    expect(all).toEqual(expect.arrayContaining(['..', '/etc/shadow', 'nul.txt']));
  });

  it("end with the reason of the caller's signal", async () => {
    const account = open();
    const big = attachmentsOf(account).find(({ size }) => Number(size) > 8_000_000);
    const controller = new AbortController();
    const reason = new Error('left');
    let chunks = 0;
    const reading = (async () => {
      for await (const _ of fileOf(account, big?.['id']).read(controller.signal)) {
        chunks += 1;
        if (chunks === 3) controller.abort(reason);
      }
    })();
    await expect(reading).rejects.toBe(reason);
    expect(chunks).toBe(3);
  });

  it('exist for attachments only', () => {
    const account = open('tiny');
    const [document] = [...sampleTruth(account, 'documents')];
    for (const [entity, id] of [
      ['attachments', 'att_none'],
      ['attachments', '../../etc/passwd'],
      ['documents', document?.record['id'] ?? ''],
    ] as const) {
      expect(account.file?.(entity, { attachment_id: id })).toBeNull();
    }
    expect(account.file?.('attachments', {})).toBeNull();
  });
});

describe('revisions of a document library', () => {
  const byId = (revision: number): ReadonlyMap<unknown, JsonObject> =>
    new Map(attachmentsOf(open('small', revision)).map((record) => [record['id'], record]));

  it('give attachments other bytes together with another time, and edit the document with them', () => {
    const [before, after] = [byId(3), byId(4)];
    const documents = (revision: number): ReadonlyMap<unknown, JsonObject> =>
      new Map(
        [...sampleTruth(open('small', revision), 'documents')].map(({ record }) => [record['id'], record]),
      );
    const [documentsBefore, documentsAfter] = [documents(3), documents(4)];
    const changed = [...after.values()].filter(({ id, checksum }) => {
      const old = before.get(id);
      return old !== undefined && old['checksum'] !== checksum;
    });
    expect(changed).toHaveLength(2);
    for (const record of changed) {
      const old = before.get(record['id']);
      expect(record['size']).not.toBe(old?.['size']);
      expect(text(record['updated_at']) > text(old?.['updated_at'])).toBe(true);
      const owner = documentsAfter.get(record['document_id']);
      const ownerBefore = documentsBefore.get(record['document_id']);
      expect(text(owner?.['updated_at']) > text(ownerBefore?.['updated_at'])).toBe(true);
    }
  });

  it('let every document show the files that are listed for it, at any revision', () => {
    for (const revision of [0, 1, 2, 3, 50]) {
      const account = open('small', revision);
      for (const { record } of sampleTruth(account, 'documents')) {
        const listed = account.list('attachments', { document_id: record['id'] ?? null }).slice(0, 1_000);
        expect(record['attachments']).toEqual(
          listed.map(({ id, file_name, content_type, size }) => ({ id, file_name, content_type, size })),
        );
      }
    }
  });

  it('do not change a file that is being read', async () => {
    const account = revisingAccount({ ...options, size: 'tiny', revision: 3 });
    const [record = {}] = attachmentsOf(account);
    const expected = await bytesOf(fileOf(account, record['id']));
    const file = fileOf(account, record['id']);
    account.moveTo(60);
    expect(await bytesOf(file)).toEqual(expected);
  });
});

describe('listing documents', () => {
  const account = open();
  const [folder] = [...sampleTruth(account, 'documents')].map(({ record }) => record['folder_id'] ?? null);
  const list = (params: JsonObject): readonly JsonObject[] =>
    account.list('documents', { folder_id: folder ?? null, ...params }).slice(0, 1_000);

  it('leaves out what was changed before or after a time, inclusive at both ends', () => {
    const times = list({})
      .map(({ updated_at }) => text(updated_at))
      .toSorted();
    const middle = times[Math.floor(times.length / 2)] ?? '';
    expect(list({ updated_since: middle }).length).toBe(times.filter((time) => time >= middle).length);
    expect(list({ updated_before: middle }).length).toBe(times.filter((time) => time <= middle).length);
    expect(() => list({ updated_since: 'yesterday' })).toThrow(/ISO 8601/);
  });

  it('filters by status', () => {
    const drafts = list({ status: 'draft' });
    expect(drafts.length).toBeGreaterThan(0);
    expect(drafts.every(({ status }) => status === 'draft')).toBe(true);
  });

  it('answers 404 for an unknown folder or document', () => {
    expect(() => account.list('documents', { folder_id: 'fol_none' })).toThrow(
      expect.objectContaining({ status: 404 }),
    );
    expect(() => account.list('attachments', { document_id: 'doc_none' })).toThrow(
      expect.objectContaining({ status: 404 }),
    );
  });

  it('holds more in one folder than a page of a listing', () => {
    const counts = [...sampleTruth(account, 'folders')].map(
      ({ record }) => account.list('documents', { folder_id: record['id'] ?? null }).slice(0, 1_000).length,
    );
    expect(Math.max(...counts)).toBeGreaterThan(100);
  });
});
