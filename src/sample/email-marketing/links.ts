import type { JsonObject } from '../../core/json.ts';

const base = 'https://us10.api.example.test/3.0';

export function apiHref(path: string): string {
  return `${base}${path}`;
}

/** The `_links` of a record. */
export function selfLinks(path: string): readonly JsonObject[] {
  return [{ rel: 'self', href: apiHref(path), method: 'GET' }];
}

/** All that the email connector says about a list: no total, no flag for another page. */
export function listLinks(path: string): JsonObject {
  return {
    links: [
      {
        rel: 'self',
        href: apiHref(path),
        method: 'GET',
        targetSchema: `${base}/Definitions/CollectionResponse.json`,
      },
      { rel: 'parent', href: apiHref('/'), method: 'GET' },
    ],
  };
}
