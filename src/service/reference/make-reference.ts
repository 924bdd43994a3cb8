import type { Definition } from '../../definitions/definition.ts';
import type { Endpoint } from '../routes/endpoint.ts';
import { openApiDocument } from './open-api-document.ts';
import { pageStyleHash } from './page-style.ts';
import { referencePage } from './reference-page.ts';

/** What the service says of itself. */
export interface Reference {
  /** The OpenAPI document, as JSON. */
  readonly document: string;
  /** The same for people: one page of HTML that needs nothing else. `baseUrl` stands in its examples. */
  page(baseUrl: string): string;
  /** The page has one style sheet and nothing that runs; whatever else came into it would stay dead. */
  readonly contentSecurityPolicy: string;
}

export function makeReference(endpoints: readonly Endpoint[], definitions: Iterable<Definition>): Reference {
  const document = openApiDocument(endpoints, definitions);
  return {
    document: JSON.stringify(document, null, 2),
    page: (baseUrl) => referencePage(document, baseUrl),
    contentSecurityPolicy: `default-src 'none'; style-src '${pageStyleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  };
}
