// Boost limits that Pinocchio's own build files would set; its headers need them.
#pragma once

#define BOOST_MPL_LIMIT_LIST_SIZE 30
#define BOOST_MPL_LIMIT_VECTOR_SIZE 30
#define BOOST_MPL_CFG_NO_PREPROCESSED_HEADERS
#define BOOST_FUSION_INVOKE_MAX_ARITY 12
