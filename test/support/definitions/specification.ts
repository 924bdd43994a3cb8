/**
 * What the API's specification says of the two connectors, written down a second time and independently of the
 * definitions: `type: names`, actions with their parameters (`!` required; `:type` unless a string; `=a|b` allowed
 * values).
 */
export interface SpecifiedEntity {
  readonly fields: Readonly<Record<string, string>>;
  readonly actions: Readonly<Record<string, string>>;
  readonly searchable?: Readonly<Record<string, string>>;
}

const page = 'count:integer offset:integer';
const search = 'query!:object limit:integer cursor fields:array';
const sortDir = 'sort_dir=ASC|DESC';
const campaignType = 'type=regular|plaintext|absplit|rss|variate';
const notesPage = 'start_cursor page_size:integer';
const blockTypes =
  'paragraph heading_1 heading_2 heading_3 bulleted_list_item numbered_list_item to_do toggle code child_page ' +
  'child_database callout quote divider table_of_contents bookmark image video file pdf embed equation table table_row ' +
  'column column_list synced_block template link_preview link_to_page breadcrumb unsupported';

export const emailMarketing: Readonly<Record<string, SpecifiedEntity>> = {
  campaigns: {
    fields: {
      string:
        'id parent_campaign_id type create_time archive_url long_archive_url status send_time content_type',
      integer: 'web_id emails_sent',
      boolean: 'needs_block_refresh resendable',
      object: 'recipients settings tracking report_summary delivery_status',
    },
    actions: {
      list: `${page} ${campaignType} status=save|paused|schedule|sending|sent before_send_time since_send_time before_create_time since_create_time list_id folder_id sort_field=create_time|send_time ${sortDir}`,
      get: 'campaign_id!',
      context_store_search: search,
    },
    searchable: {
      object:
        'ab_split_opts delivery_status recipients report_summary rss_opts settings social_card tracking variate_settings',
      string:
        'archive_url content_type create_time id long_archive_url parent_campaign_id send_time status type',
      integer: 'emails_sent web_id',
      boolean: 'needs_block_refresh resendable',
    },
  },
  lists: {
    fields: {
      string:
        'id name permission_reminder notify_on_subscribe notify_on_unsubscribe date_created subscribe_url_short subscribe_url_long beamer_address visibility',
      integer: 'web_id list_rating',
      boolean: 'use_archive_bar email_type_option double_optin has_welcome marketing_permissions',
      object: 'contact campaign_defaults stats',
    },
    actions: {
      list: `${page} before_date_created since_date_created before_campaign_last_sent since_campaign_last_sent email sort_field=date_created ${sortDir}`,
      get: 'list_id!',
      context_store_search: search,
    },
    searchable: {
      string:
        'beamer_address date_created id name notify_on_subscribe notify_on_unsubscribe permission_reminder subscribe_url_long subscribe_url_short visibility',
      object: 'campaign_defaults contact stats',
      boolean: 'double_optin email_type_option has_welcome marketing_permissions use_archive_bar',
      integer: 'list_rating web_id',
      array: 'modules',
    },
  },
  list_members: {
    fields: {
      string:
        'id email_address unique_email_id contact_id full_name email_type status unsubscribe_reason ip_signup timestamp_signup ip_opt timestamp_opt last_changed language email_client source list_id',
      integer: 'web_id member_rating tags_count',
      boolean: 'consents_to_one_to_one_messaging vip',
      object: 'merge_fields interests stats location',
      array: 'tags',
    },
    actions: {
      list: `list_id! ${page} email_type status=subscribed|unsubscribed|cleaned|pending|transactional|archived since_timestamp_opt before_timestamp_opt since_last_changed before_last_changed unique_email_id vip_only:boolean interest_category_id interest_ids interest_match=any|all|none sort_field=timestamp_opt|timestamp_signup|last_changed ${sortDir}`,
      get: 'list_id! subscriber_hash!',
    },
  },
  reports: {
    fields: {
      string: 'id campaign_title type list_id list_name subject_line preview_text send_time rss_last_send',
      boolean: 'list_is_active',
      integer: 'emails_sent abuse_reports unsubscribed',
      object:
        'bounces forwards opens clicks social_likes industry_stats list_stats ecommerce delivery_status',
    },
    actions: {
      list: `${page} ${campaignType} before_send_time since_send_time`,
      get: 'campaign_id!',
      context_store_search: search,
    },
    searchable: {
      object:
        'ab_split bounces clicks delivery_status ecommerce social_likes forwards industry_stats list_stats opens share_report',
      integer: 'abuse_reports emails_sent unsubscribed',
      string: 'campaign_title id list_id list_name preview_text rss_last_send send_time subject_line type',
      boolean: 'list_is_active',
      array: 'timeseries timewarp',
    },
  },
  email_activity: {
    fields: {
      string: 'campaign_id list_id email_id email_address',
      boolean: 'list_is_active',
      array: 'activity',
    },
    actions: { list: `campaign_id! ${page} since`, context_store_search: search },
    searchable: {
      string: 'action campaign_id email_address email_id ip list_id timestamp type url',
      boolean: 'list_is_active',
    },
  },
  automations: {
    fields: {
      string: 'id create_time start_time status',
      integer: 'emails_sent',
      object: 'recipients settings tracking report_summary',
    },
    actions: {
      list: `${page} before_create_time since_create_time before_start_time since_start_time status=save|paused|sending`,
    },
  },
  tags: { fields: { integer: 'id', string: 'name' }, actions: { list: 'list_id! name' } },
  interest_categories: {
    fields: { string: 'list_id id title type', integer: 'display_order' },
    actions: { list: `list_id! ${page}`, get: 'list_id! interest_category_id!' },
  },
  interests: {
    fields: { string: 'category_id list_id id name subscriber_count', integer: 'display_order' },
    actions: {
      list: `list_id! interest_category_id! ${page}`,
      get: 'list_id! interest_category_id! interest_id!',
    },
  },
  segments: {
    fields: {
      integer: 'id member_count',
      string: 'name type created_at updated_at list_id',
      object: 'options',
    },
    actions: {
      list: `list_id! ${page} type since_created_at before_created_at since_updated_at before_updated_at`,
      get: 'list_id! segment_id!',
    },
  },
  segment_members: {
    fields: {
      string:
        'id email_address unique_email_id email_type status ip_signup timestamp_signup ip_opt timestamp_opt last_changed language email_client list_id',
      integer: 'member_rating',
      boolean: 'vip',
      object: 'merge_fields interests stats location',
    },
    actions: { list: `list_id! segment_id! ${page}` },
  },
  unsubscribes: {
    fields: {
      string: 'email_id email_address timestamp reason campaign_id list_id',
      object: 'merge_fields',
      boolean: 'vip list_is_active',
    },
    actions: { list: `campaign_id! ${page}` },
  },
};

export const workspaceNotes: Readonly<Record<string, SpecifiedEntity>> = {
  users: {
    fields: { string: 'id object type name avatar_url request_id', object: 'person bot' },
    actions: { list: notesPage, get: 'user_id!', context_store_search: search },
    searchable: { string: 'avatar_url id name', object: 'bot object person type' },
  },
  pages: {
    fields: {
      string: 'id object created_time last_edited_time url public_url request_id',
      object: 'created_by last_edited_by cover icon properties',
      any: 'parent',
      boolean: 'archived in_trash is_archived is_locked',
    },
    actions: {
      list: `filter:object sort:object ${notesPage}`,
      get: 'page_id!',
      context_store_search: search,
    },
    searchable: {
      boolean: 'archived in_trash',
      object: 'cover created_by icon last_edited_by object parent',
      string: 'created_time id last_edited_time public_url url',
      array: 'properties',
    },
  },
  data_sources: {
    fields: {
      string: 'id object created_time last_edited_time url public_url request_id',
      object: 'created_by last_edited_by icon cover properties',
      array: 'title description',
      any: 'parent database_parent',
      boolean: 'archived in_trash is_archived is_inline is_locked',
    },
    actions: {
      list: `filter:object sort:object ${notesPage}`,
      get: 'data_source_id!',
      context_store_search: search,
    },
    searchable: {
      boolean: 'archived is_inline',
      object: 'cover created_by database_parent icon last_edited_by object parent',
      string: 'created_time id last_edited_time public_url url',
      array: 'description properties title',
    },
  },
  blocks: {
    fields: {
      string: 'id object type created_time last_edited_time request_id',
      object: `created_by last_edited_by ${blockTypes}`,
      boolean: 'has_children archived in_trash',
      any: 'parent',
    },
    actions: { list: `block_id! ${notesPage}`, get: 'block_id!', context_store_search: search },
    searchable: {
      boolean: 'archived has_children',
      string: 'id created_time last_edited_time',
      object: `created_by last_edited_by parent type object ${blockTypes}`,
    },
  },
  comments: {
    fields: {
      string: 'id object discussion_id created_time last_edited_time',
      any: 'parent',
      object: 'created_by',
      array: 'rich_text',
    },
    actions: { list: `block_id! ${notesPage}` },
  },
};

/** What the two services send since the specification was written. */
export const sentSince: Readonly<Record<string, Pick<SpecifiedEntity, 'fields'>>> = {
  lists: { fields: { array: 'modules' } },
  campaigns: {
    fields: { object: 'ab_split_opts rss_opts variate_settings social_card' },
  },
  automations: { fields: { object: 'trigger_settings' } },
  reports: { fields: { object: 'ab_split share_report', array: 'timewarp timeseries' } },
  list_members: {
    fields: {
      array: 'marketing_permissions',
      object: 'last_note',
      string: 'sms_phone_number sms_subscription_status sms_subscription_last_updated',
    },
  },
  segment_members: { fields: { string: 'full_name', object: 'last_note' } },
  blocks: { fields: { object: 'heading_4 audio tab transcription meeting_notes' } },
  comments: {
    // `request_id`: in the answer of get.
    fields: { object: 'display_name', array: 'attachments', string: 'request_id' },
  },
};
