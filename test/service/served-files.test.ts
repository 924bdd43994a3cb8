import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import { createSampleAccount } from '../../src/sample/sample-service.ts';
import { sampleTruth } from '../support/sample-truth.ts';
import { safeBase } from '../../src/sinks/files/safe-file-name.ts';
import { serveApi, text, type ServedApi } from '../support/service/served-api.ts';

const library = 'library-1';
const account = { definitionName: 'document-library', seed: 7, size: 'small' } as const;

let api: ServedApi;
beforeAll(async () => {
  api = await serveApi({ accounts: [{ connectorId: library, workspace: 'default', ...account }] });
});
afterAll(() => api.service.close());

const attachments = [...sampleTruth(createSampleAccount(account), 'attachments')].map(({ record }) => record);

function download(params: JsonObject): Promise<Response> {
  return fetch(`${api.service.url}/api/v1/integrations/connectors/${library}/execute`, {
    method: 'POST',
    headers: { authorization: `Bearer ${api.token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ entity: 'attachments', action: 'download', params }),
  });
}

/** The name as RFC 6266 has it: the extended one where there is one. */
function nameIn(disposition: string | null): string {
  const [, extended] = /; filename\*=UTF-8''([^;]+)$/.exec(disposition ?? '') ?? [];
  const [, plain = ''] = /; filename="([^"]*)"/.exec(disposition ?? '') ?? [];
  return extended === undefined ? plain : decodeURIComponent(extended);
}

describe('a download from the served library', () => {
  // Proves specification 1.3, 4.4.7, 4.4.10
  it('brings the bytes, the name, the type and the size that the record gives, whatever the name is', async () => {
    const oneOfEachName = new Map(attachments.map((record) => [record['file_name'], record]));
    expect(oneOfEachName.size).toBeGreaterThan(20);
    for (const [name, record] of oneOfEachName) {
      const response = await download({ attachment_id: record['id'] ?? null });
      const bytes = Buffer.from(await response.arrayBuffer());
      expect({
        status: response.status,
        type: response.headers.get('content-type'),
        length: response.headers.get('content-length'),
        size: bytes.length,
        checksum: createHash('sha256').update(bytes).digest('hex'),
      }).toEqual({
        status: 200,
        type: record['content_type'],
        length: text(record['size']),
        size: record['size'],
        checksum: record['checksum'],
      });
      const long = text(name).length > 255;
      if (!long) expect(nameIn(response.headers.get('content-disposition'))).toBe(safeBase(text(name)));
      expect([...response.headers.keys()].filter((header) => header.startsWith('x-'))).toEqual([
        'x-content-type-options',
        'x-request-id',
      ]);
    }
  });

  // Proves specification 4.4.7
  it('of many megabytes comes in pieces', async () => {
    const big = attachments.find(({ size }) => Number(size) > 8_000_000) ?? {};
    const response = await download({ attachment_id: big['id'] ?? null });
    const hash = createHash('sha256');
    let pieces = 0;
    for await (const piece of response.body ?? []) {
      hash.update(piece);
      pieces += 1;
    }
    expect(hash.digest('hex')).toBe(big['checksum']);
    expect(pieces).toBeGreaterThan(20);
  });

  // Proves specification 4.4.11
  it('of a file that is not there brings no bytes', async () => {
    const response = await download({ attachment_id: 'att_none' });
    expect([
      response.status,
      response.headers.get('content-length'),
      (await response.arrayBuffer()).byteLength,
    ]).toEqual([200, '0', 0]);
  });

  // Proves specification 4.4.9
  it('that does not say of what is refused', async () => {
    const response = await download({});
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ errors: [{ field: 'params.attachment_id' }] });
  });
});

describe('lists of the served library', () => {
  // Proves specification 4.4.9
  it('give the ids, names, types and sizes of attachments, by which a download brings them', async () => {
    let downloads = 0;
    for (const { id: folder_id = null } of (await api.list(library, 'folders', {})).records.slice(0, 8)) {
      for (const document of (await api.list(library, 'documents', { folder_id, limit: 20 })).records) {
        const { id: document_id = null } = document;
        const { records } = await api.list(library, 'attachments', { document_id });
        const metadata = records.map(({ id, file_name, content_type, size }) => ({
          id,
          file_name,
          content_type,
          size,
        }));
        expect(document['attachments']).toEqual(metadata);
        for (const { id = null, content_type, size } of metadata.slice(0, 2)) {
          const response = await download({ attachment_id: id });
          expect([response.status, response.headers.get('content-type')]).toEqual([200, content_type]);
          expect((await response.arrayBuffer()).byteLength).toBe(size);
          downloads += 1;
        }
      }
    }
    expect(downloads).toBeGreaterThan(5);
  });

  // Proves specification 2.2.5, 4.4.5
  it('page by cursor, end_cursor and has_next_page', async () => {
    const ids: unknown[] = [];
    let cursor: unknown = null;
    do {
      const { records, metadata } = await api.list(library, 'folders', {
        limit: 4,
        ...(typeof cursor === 'string' ? { cursor } : {}),
      });
      expect(Object.keys(metadata).toSorted()).toEqual(['end_cursor', 'has_next_page']);
      expect(metadata['has_next_page']).toBe(typeof metadata['end_cursor'] === 'string');
      ids.push(...records.map(({ id }) => id));
      cursor = metadata['end_cursor'];
    } while (cursor !== null);
    const truth = [...sampleTruth(createSampleAccount(account), 'folders')].map(({ record }) => record['id']);
    expect(ids).toEqual(truth);
  });
});
