#pragma once

#include <quire/engine.h>
#include <quire/engine_options.h>
#include <quire/engine_thread.h>
#include <quire/export.h>
#include <quire/model_source.h>
#include <quire/request.h>
#include <quire/sampling_params.h>
#include <quire/status.h>
#include <quire/token_event.h>
#include <quire/tokenizer.h>
#include <quire/version.h>
