import type { EntityName } from '../src/core/names.ts';
import type { Column } from '../src/core/records.ts';
import { loadDefinitions } from '../src/definitions/load-definitions.ts';

/** The columns of list members. */
export function memberColumns(): readonly Column[] {
  const members = loadDefinitions(['config/definitions'])
    .get('email-marketing')
    ?.entities.get('list_members' as EntityName);
  if (members === undefined) throw new Error('no definition of list_members');
  return members.table.columns;
}

/** Pages of a thousand, one after the other, with no retries: as written in an hour. */
export async function* memberPages(baseUrl: string): AsyncGenerator<readonly Record<string, unknown>[]> {
  const credentials = { client_id: 'bench', client_secret: 'bench' };
  const token = String(
    (await post(baseUrl, '/api/v1/account/applications/token', credentials, ''))['access_token'],
  );
  for (let offset = 0; ; offset += 1000) {
    const asked = {
      entity: 'list_members',
      action: 'list',
      params: { list_id: 'bench', count: 1000, offset },
    };
    const page = await post(baseUrl, '/api/v1/integrations/connectors/bench/execute', asked, token);
    const records = page['result'] as readonly Record<string, unknown>[];
    yield records;
    if (records.length < 1000) return;
  }
}

/** What a script prints at its end. */
export function printResult(rows: number, startedMs: number): void {
  const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage();
  const result = {
    rows,
    written: rows,
    ms: performance.now() - startedMs,
    cpuMs: (userCPUTime + systemCPUTime) / 1000,
    rssMiB: maxRSS / 1024,
  };
  process.stdout.write(`${JSON.stringify(result)}\n`);
}

async function post(
  baseUrl: string,
  route: string,
  body: object,
  bearer: string,
): Promise<Record<string, unknown>> {
  const response = await fetch(baseUrl + route, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${bearer}` },
    body: JSON.stringify(body),
  });
  return (await response.json()) as Record<string, unknown>;
}
