import type { Definition } from '../../definitions/definition.ts';
import type { Reference } from '../routes/api-parts.ts';
import type { Endpoint } from '../routes/endpoint.ts';
import { openApiDocument } from './open-api-document.ts';
import { pageStyleHash } from './page-style.ts';
import { referencePage } from './reference-page.ts';

export function makeReference(endpoints: readonly Endpoint[], definitions: Iterable<Definition>): Reference {
  const document = openApiDocument(endpoints, definitions);
  return {
    document: JSON.stringify(document, null, 2),
    page: (baseUrl) => referencePage(document, baseUrl),
    contentSecurityPolicy: `default-src 'none'; style-src '${pageStyleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  };
}
